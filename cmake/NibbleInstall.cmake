# The library (every room but the command line), and what `cmake --install` puts where.
#
#   bin/nibble   lib/libnibble.so.VERSION, libnibble.a
#   include/nibble/nibble.h (C)   include/nibble-0/ROOM/*.h (C++)
#   lib/pkgconfig/nibble.pc   share/man/man1/nibble.1   completions for bash, zsh and fish
#
# The fuzz build is never installed.
if(NIBBLE_FUZZ)
  return()
endif()

get_property(library_rooms GLOBAL PROPERTY NIBBLE_ROOMS)
list(REMOVE_ITEM library_rooms cli)
set(library_targets "${library_rooms}")
list(TRANSFORM library_targets PREPEND nibble_)
set(library_objects "${library_targets}")
list(TRANSFORM library_objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")

# Both forms are made of the objects that the program is made of; nothing is compiled twice.
set(api_version ${PROJECT_VERSION_MAJOR})
add_library(nibble_shared SHARED)
set_target_properties(nibble_shared PROPERTIES
  OUTPUT_NAME nibble LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${api_version})
target_link_libraries(nibble_shared PRIVATE ${library_targets} ${CMAKE_DL_LIBS} Threads::Threads)
# fmt, nlohmann-json, PCRE2, utf8proc and OpenSSL are linked in; only our own names are visible outside.
set(symbols "${PROJECT_SOURCE_DIR}/cmake/libnibble.map")
target_link_options(nibble_shared PRIVATE "LINKER:--version-script=${symbols}")
set_target_properties(nibble_shared PROPERTIES LINK_DEPENDS "${symbols}")
if(NOT NIBBLE_ASAN)
  target_link_options(nibble_shared PRIVATE "LINKER:--no-undefined")
endif()

add_library(nibble_static STATIC ${library_objects})
set_target_properties(nibble_static PROPERTIES OUTPUT_NAME nibble LINKER_LANGUAGE CXX)

# What the program says about itself, said by the program that was just built.
set(generated "${PROJECT_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${generated}")
set(generated_files "")
function(_nibble_generate file)
  add_custom_command(OUTPUT "${generated}/${file}"
    COMMAND nibble ${ARGN} > "${generated}/${file}" DEPENDS nibble
    COMMENT "Generating ${file}" VERBATIM)
  set(generated_files ${generated_files} "${generated}/${file}" PARENT_SCOPE)
endfunction()
_nibble_generate(nibble.1 man)
_nibble_generate(nibble.bash completion bash)
_nibble_generate(_nibble completion zsh)
_nibble_generate(nibble.fish completion fish)
add_custom_target(nibble_generated ALL DEPENDS ${generated_files})

# The prefix follows the place of the file itself, so that an installed tree may be moved.
set(include_directory "${CMAKE_INSTALL_INCLUDEDIR}/nibble-${api_version}")
set(pkgconfig_directory "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
# No "Requires: fmt": pkg-config would ask programs in C for it too, of Requires.private as well. In
# C++ our headers take fmt's as they are, without its library; libnibble.a needs that.
file(RELATIVE_PATH prefix_from_pkgconfig "/${pkgconfig_directory}" "/")
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
file(CONFIGURE OUTPUT "${generated}/nibble.pc" @ONLY CONTENT
"prefix=\${pcfiledir}/@prefix_from_pkgconfig@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: nibble
Description: @PROJECT_DESCRIPTION@ (C99 and C++20)
Version: @PROJECT_VERSION@
Cflags: -I\${includedir} -I\${includedir}/nibble-@api_version@ -DFMT_HEADER_ONLY
Libs: -L\${libdir} -lnibble
Libs.private: -lfmt -lpcre2-8 -lutf8proc -lssl -lcrypto -lstdc++ -lm -ldl -pthread
")

install(TARGETS nibble nibble_shared nibble_static)
foreach(room IN LISTS library_rooms)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/${room}/" DESTINATION "${include_directory}/${room}"
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/include/nibble/nibble.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/nibble")
install(FILES "${generated}/nibble.pc" DESTINATION "${pkgconfig_directory}")
install(FILES "${generated}/nibble.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${generated}/nibble.bash"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME nibble)
install(FILES "${generated}/_nibble" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES "${generated}/nibble.fish"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
