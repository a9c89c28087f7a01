# nibble_room(NAME
#   DEPENDS rooms that this one may include (transitively)
#   SOURCES  .cpp files
#   TESTS    *_test.cpp files, linked into one program nibble_NAME_test
#   LIBRARIES third-party libraries)
#
# Makes the object library nibble_NAME. Two checks become part of the build:
# - a file of this room includes nothing but this room and its DEPENDS, transitively;
# - every header of the room compiles alone (NO_HEADER_CHECK names the exceptions).
set_property(GLOBAL PROPERTY NIBBLE_ROOMS "")

function(nibble_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;SOURCES;TESTS;LIBRARIES;NO_HEADER_CHECK" ${ARGN})

  set(allowed "${name}")
  foreach(dependency IN LISTS ROOM_DEPENDS)
    get_property(transitive GLOBAL PROPERTY "NIBBLE_ROOM_${dependency}_ALLOWED")
    if(NOT transitive)
      message(FATAL_ERROR "room ${name} depends on ${dependency}, which is not a lower room")
    endif()
    list(APPEND allowed ${transitive})
  endforeach()
  list(REMOVE_DUPLICATES allowed)
  set_property(GLOBAL PROPERTY "NIBBLE_ROOM_${name}_ALLOWED" "${allowed}")
  set_property(GLOBAL APPEND PROPERTY NIBBLE_ROOMS "${name}")

  add_library(nibble_${name} OBJECT ${ROOM_SOURCES})
  target_link_libraries(nibble_${name} PUBLIC nibble_options ${ROOM_LIBRARIES})

  _nibble_check_includes(${name} "${allowed}")
  _nibble_check_headers(${name} "${ROOM_NO_HEADER_CHECK}")

  if(NIBBLE_TESTS AND ROOM_TESTS)
    add_executable(nibble_${name}_test ${ROOM_TESTS})
    nibble_link_rooms(nibble_${name}_test ${allowed})
    target_link_libraries(nibble_${name}_test PRIVATE GTest::gtest GTest::gtest_main)
    target_compile_definitions(nibble_${name}_test PRIVATE
      NIBBLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    # Tests run once a build: compiling them is what costs.
    target_compile_options(nibble_${name}_test PRIVATE -O0)
    if(NOT TARGET nibble_test_headers)
      add_library(nibble_test_headers OBJECT "${PROJECT_SOURCE_DIR}/cmake/test_headers.cpp")
      target_link_libraries(nibble_test_headers PRIVATE nibble_options GTest::gtest)
      target_compile_definitions(nibble_test_headers PRIVATE
        NIBBLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
      target_compile_options(nibble_test_headers PRIVATE -O0 -fPIE)
      target_precompile_headers(nibble_test_headers PRIVATE
        <gtest/gtest.h> <fmt/core.h> <algorithm> <string> <vector>)
    endif()
    target_precompile_headers(nibble_${name}_test REUSE_FROM nibble_test_headers)
    gtest_discover_tests(nibble_${name}_test
      TEST_PREFIX "${name}." PROPERTIES LABELS fast TIMEOUT 60 DISCOVERY_TIMEOUT 60)
  endif()
endfunction()

# Links the objects of the named rooms (and of all they depend on) into a program.
function(nibble_link_rooms target)
  set(rooms "")
  foreach(room IN LISTS ARGN)
    get_property(allowed GLOBAL PROPERTY "NIBBLE_ROOM_${room}_ALLOWED")
    list(APPEND rooms ${allowed})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  # A directly linked object library brings its objects along.
  foreach(room IN LISTS rooms)
    target_link_libraries(${target} PRIVATE nibble_${room})
  endforeach()
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
endfunction()
find_package(Threads REQUIRED)

function(_nibble_check_includes name allowed)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.h"
       "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(stamp "${CMAKE_CURRENT_BINARY_DIR}/includes.stamp")
  string(REPLACE ";" "," allowed_list "${allowed}")
  add_custom_command(OUTPUT "${stamp}"
    COMMAND ${CMAKE_COMMAND} "-DROOM=${name}" "-DALLOWED=${allowed_list}"
            "-DDIRECTORY=${CMAKE_CURRENT_SOURCE_DIR}" -P "${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake"
    COMMAND ${CMAKE_COMMAND} -E touch "${stamp}"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake"
    COMMENT "Checking that ${name} includes only lower rooms" VERBATIM)
  add_custom_target(nibble_${name}_includes ALL DEPENDS "${stamp}")
endfunction()

# A header that is the first include of its own .cpp file compiles alone, or that file would not: the
# others get a check of their own.
function(_nibble_check_headers name exceptions)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src"
       "${CMAKE_CURRENT_SOURCE_DIR}/*.h")
  list(REMOVE_ITEM headers ${exceptions})
  set(stamps "")
  foreach(header IN LISTS headers)
    set(path "${PROJECT_SOURCE_DIR}/src/${header}")
    string(REGEX REPLACE "[.]h$" ".cpp" source "${path}")
    if(EXISTS "${source}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
      file(STRINGS "${source}" includes REGEX "^#include")
      list(GET includes 0 first)
      if(first STREQUAL "#include \"${header}\"")
        continue()
      endif()
    endif()
    string(REPLACE "/" "_" flat "${header}")
    set(stamp "${CMAKE_CURRENT_BINARY_DIR}/${flat}.alone.stamp")
    add_custom_command(OUTPUT "${stamp}"
      COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -Wall -Wextra
              -Wno-missing-field-initializers -Werror "-I${PROJECT_SOURCE_DIR}/src" -include "${path}"
              -x c++ /dev/null
      COMMAND ${CMAKE_COMMAND} -E touch "${stamp}"
      DEPENDS "${path}" IMPLICIT_DEPENDS CXX "${path}"
      COMMENT "Checking that ${header} compiles alone" VERBATIM)
    list(APPEND stamps "${stamp}")
  endforeach()
  add_custom_target(nibble_${name}_headers ALL DEPENDS ${stamps})
endfunction()
