# Models: included by the room's CMakeLists.txt.
set(models_sources
  models/embedding.cpp
  models/linear.cpp
  models/load.cpp
  models/qwen3_moe.cpp
  models/qwen3_moe_config.cpp
  models/qwen3_moe_load.cpp
  models/qwen3_moe_memory.cpp
  score.cpp)
set(models_tests
  models/allocation_test.cpp
  models/linear_test.cpp
  models/load_test.cpp
  models/qwen3_moe_test.cpp
  models/test_runner.cpp
  score_test.cpp)
