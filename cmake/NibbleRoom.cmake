# nibble_room(NAME
#   DEPENDS rooms that this one may include (transitively)
#   SOURCES  .cpp files
#   TESTS    *_test.cpp files, linked into one program nibble_NAME_test
#   LIBRARIES third-party libraries
#   ASIO      most files of this room include Asio
#   SEPARATE  files of this room are never compiled together: variants of one name
#   COLD      no loop here is one that anybody waits for: -O1, which compiles in two thirds of the time)
#
# Makes the object library nibble_NAME. Two checks become part of the build:
# - a file of this room includes nothing but this room and its DEPENDS, transitively;
# - every header of the room compiles alone (NO_HEADER_CHECK names the exceptions).
include(NibblePrecompiled)
set_property(GLOBAL PROPERTY NIBBLE_ROOMS "")

function(nibble_room name)
  cmake_parse_arguments(ROOM "ASIO;SEPARATE;COLD" "" "DEPENDS;SOURCES;TESTS;LIBRARIES;NO_HEADER_CHECK" ${ARGN})

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
  set(headers standard)
  if(ROOM_ASIO)
    set(headers asio)
  endif()
  nibble_precompile_objects(nibble_${name} ${headers})
  if(NOT ROOM_SEPARATE)
    nibble_compile_together(nibble_${name})
  endif()

  if(ROOM_COLD)
    target_compile_options(nibble_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()

  _nibble_check_includes(${name} "${allowed}")
  _nibble_check_headers(${name} "${ROOM_NO_HEADER_CHECK}" ${headers})

  if(NIBBLE_TESTS AND ROOM_TESTS)
    add_executable(nibble_${name}_test ${ROOM_TESTS})
    nibble_link_rooms(nibble_${name}_test ${allowed})
    target_link_libraries(nibble_${name}_test PRIVATE GTest::gtest GTest::gtest_main)
    # As the program itself: tests of GPUs run on another machine (tools/gpu_pack.sh).
    if(NOT NIBBLE_ASAN)
      target_link_options(nibble_${name}_test PRIVATE -static-libstdc++ -static-libgcc)
    endif()
    target_compile_definitions(nibble_${name}_test PRIVATE
      NIBBLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    nibble_compile_quickly(nibble_${name}_test ${headers})
    if(NOT ROOM_SEPARATE)
      nibble_compile_together(nibble_${name}_test)
    endif()
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

# nibble_check_abi(NAME header source): where a library's header is, our own declarations of it, which need
# none, are compared with it.
function(nibble_check_abi name header source)
  find_file(NIBBLE_${name}_HEADER ${header} DOC "A header to check our own declarations by"
    PATHS /usr/local/cuda/include ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES include)
  if(NIBBLE_${name}_HEADER)
    cmake_path(GET NIBBLE_${name}_HEADER PARENT_PATH include)
    add_library(nibble_${name}_abi_check OBJECT ${source})
    target_link_libraries(nibble_${name}_abi_check PRIVATE nibble_options)
    target_include_directories(nibble_${name}_abi_check SYSTEM PRIVATE "${include}")
  endif()
endfunction()

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

# A header that is the first include of its own .cpp file compiles alone, or that file would not: each
# of the others is compiled as a file of its own. What precompiled headers would hide,
# tests/source/test_includes.py looks up: the names of std, fmt and Asio; what files that are compiled
# together would hide, tests/source/test_names.py: our own.
function(_nibble_check_headers name exceptions precompiled)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src"
       "${CMAKE_CURRENT_SOURCE_DIR}/*.h")
  list(REMOVE_ITEM headers ${exceptions})
  set(sources "")
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
    set(alone "${CMAKE_CURRENT_BINARY_DIR}/alone/${flat}.cpp")
    file(CONFIGURE OUTPUT "${alone}" CONTENT "#include \"${header}\"\n" @ONLY)
    list(APPEND sources "${alone}")
  endforeach()
  if(sources)
    add_library(nibble_${name}_headers OBJECT ${sources})
    target_link_libraries(nibble_${name}_headers PRIVATE nibble_options)
    nibble_precompile_objects(nibble_${name}_headers ${precompiled})
  endif()
endfunction()
