# What a layer has besides products and experts: included by the room's CMakeLists.txt.
set(attention_sources
  attention/attention.cpp
  attention/attention_avx2.cpp
  attention/attention_avx512.cpp
  attention/attention_portable.cpp
  attention/kv_cache.cpp
  attention/reference.cpp
  norm/rms_norm.cpp
  rope/rope.cpp)
set(attention_tests
  attention/attention_test.cpp
  attention/kv_cache_test.cpp
  norm/rms_norm_test.cpp
  rope/rope_test.cpp)
# Sums of a row of heads stay in registers only when the loops over heads are unrolled.
set_source_files_properties(attention/attention.cpp attention/attention_avx2.cpp
  attention/attention_avx512.cpp
  PROPERTIES COMPILE_OPTIONS "-O3")
