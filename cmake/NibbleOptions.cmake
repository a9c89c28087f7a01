# Compile options of our own code; third-party headers are included as system headers.
add_library(nibble_options INTERFACE)
target_include_directories(nibble_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(nibble_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Werror)
# Designated initialisers leave fields at their defaults on purpose.
target_compile_options(nibble_options INTERFACE -Wno-missing-field-initializers)
# GCC 12 takes std::string's operator+ for an overlapping copy (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(nibble_options INTERFACE -Wno-restrict)
endif()
# The same bits everywhere (design.md, decision 7): no fused multiply-add behind our back.
target_compile_options(nibble_options INTERFACE -ffp-contract=off)
if(NIBBLE_ASAN)
  target_compile_options(nibble_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nibble_options INTERFACE -fsanitize=address,undefined)
endif()
if(NIBBLE_FUZZ)
  target_compile_options(nibble_options INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(nibble_options INTERFACE -fsanitize=address,undefined)
endif()
