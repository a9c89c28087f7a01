# Precompiled headers: parsing the standard library is half of what compiling this project costs.
#
# There are two sets of headers, `standard` and `asio` (which is the larger, and only pays where most
# files include Asio), each for optimized objects of rooms and for programs that only test. They hold
# no header of our own.
set(NIBBLE_PRECOMPILED_standard
  <algorithm> <array> <charconv> <cmath> <cstddef> <cstdint> <functional> <limits> <map> <memory>
  <optional> <set> <span> <string> <string_view> <utility> <variant> <vector> <fmt/core.h>)
set(NIBBLE_PRECOMPILED_asio
  ${NIBBLE_PRECOMPILED_standard}
  <atomic> <chrono> <thread> <mutex> <fmt/format.h>
  <boost/asio/any_io_executor.hpp> <boost/asio/async_result.hpp> <boost/asio/awaitable.hpp>
  <boost/asio/buffer.hpp> <boost/asio/co_spawn.hpp> <boost/asio/detached.hpp>
  <boost/asio/executor_work_guard.hpp> <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp>
  <boost/asio/post.hpp> <boost/asio/redirect_error.hpp> <boost/asio/steady_timer.hpp>
  <boost/asio/this_coro.hpp> <boost/asio/use_awaitable.hpp> <boost/asio/write.hpp>)

# Objects take the first only of g++ without a launcher: ccache keeps no object that was made with
# one, and the fuzz build is clang's. With one, g++ 12 warns of accesses out of bounds in what it inlines from
# std::string (machine/probe_cpu.cpp, mock/distribution.cpp), and without one it does not: builds with
# ccache keep these warnings.
function(nibble_precompile_objects target headers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_compile_options(${target} PRIVATE
      -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
    _nibble_precompile(${target} objects ${headers} "-fPIC")
  endif()
endfunction()

# Compiles a dozen files of a target at a time, so that headers of our own and templates of the standard
# library are read and instantiated once for all of them: half of the work, in 0.6 GB at most. No two files
# of a room may therefore give one name to different things, in anonymous namespaces too
# (tests/source/test_names.py). A file with options or definitions of its own stays alone. Not with a
# launcher: whoever edits a file compiles that file, and ccache keeps the others. Not with sanitizers,
# whose code is several times as large.
function(nibble_compile_together target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT NIBBLE_ASAN)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # g++ takes the files of such a group for headers, whose types should not use anonymous namespaces.
    # And g++ 12 inlines so much more of them that it takes moved std::strings for unset ones
    # (cli/deployment_flags.cpp), and Asio's coroutine frames for memory of another allocator
    # (serve/server.cpp): builds with ccache keep these warnings.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-maybe-uninitialized
                           -Wno-mismatched-new-delete)
  endif()
endfunction()

# For programs of the tests, which run once a build: compiling them is what costs.
function(nibble_compile_quickly target headers)
  target_compile_options(${target} PRIVATE -O0)
  target_link_libraries(${target} PRIVATE GTest::gtest)
  _nibble_precompile(${target} tests ${headers} "-O0;-fPIE" <gtest/gtest.h>)
  target_link_libraries(nibble_tests_${headers}_headers PRIVATE GTest::gtest)
endfunction()

function(_nibble_precompile target kind headers options)
  set(owner "nibble_${kind}_${headers}_headers")
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT "${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp")
    target_link_libraries(${owner} PRIVATE nibble_options)
    target_compile_options(${owner} PRIVATE ${options})
    target_precompile_headers(${owner} PRIVATE ${ARGN} ${NIBBLE_PRECOMPILED_${headers}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
