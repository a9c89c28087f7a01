# Choosing between tactics; paths are relative to the room.
set(tune_sources
  tune/audit.cpp
  tune/choose.cpp
  tune/cpu_layer.cpp
  tune/cpu_site.cpp
  tune/gate.cpp
  tune/key.cpp
  tune/store.cpp
  tune/table.cpp
  tune/tactic.cpp
  tune/tuner.cpp
  tune/tuning_file.cpp
  tune/tuning_read.cpp
  tune/worker.cpp
  tune/worker_child.cpp
  tune/worker_wire.cpp)
set(tune_tests
  tune/choose_test.cpp
  tune/cpu_layer_test.cpp
  tune/tactic_test.cpp
  tune/tuner_test.cpp
  tune/tuning_file_test.cpp
  tune/worker_test.cpp)
set_source_files_properties(tune/cpu_site.cpp PROPERTIES COMPILE_DEFINITIONS
  "NIBBLE_VERSION=\"${PROJECT_VERSION}\"")
