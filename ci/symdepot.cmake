# symdepot_push(targets... [SERVER url] [PRODUCT name] [VERSION version] [NAME target])
#
# Adds a target (push-symbols, or NAME) that builds the targets and pushes their files and,
# where the compiler writes one, their PDB to a symdepot server as one build:
#
#   include(symdepot.cmake)
#   symdepot_push(game engine SERVER https://symbols.example.com)
#   cmake --build build --target push-symbols
#
# Replace symbols.example.com by your server. Without SERVER, SYMDEPOT_SERVER counts. The
# token is in the environment variable SYMDEPOT_TOKEN when the target is built. The product is the project's name and version
# unless they are given.
#
# symdepot_check(paths... [SERVER url] [REQUIRE words] [NAME target])
#
# Adds a target (check-symbols, or NAME) that fails unless each program and library in the paths, which ship, has its
# symbols at the server:
#
#   symdepot_check("${CMAKE_INSTALL_PREFIX}" REQUIRE symbols,lines)
#   cmake --build build --target check-symbols
function(symdepot_check)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SERVER;REQUIRE;NAME" "")
  find_program(SYMDEPOT_EXECUTABLE symdepot DOC "The program symdepot")
  if(NOT SYMDEPOT_EXECUTABLE)
    message(FATAL_ERROR "symdepot_check: symdepot is not on the PATH; set SYMDEPOT_EXECUTABLE")
  endif()
  if(NOT arg_NAME)
    set(arg_NAME check-symbols)
  endif()
  set(options "")
  if(arg_REQUIRE)
    list(APPEND options --require "${arg_REQUIRE}")
  endif()
  if(arg_SERVER)
    list(APPEND options --server "${arg_SERVER}")
  endif()
  add_custom_target(${arg_NAME}
    COMMAND "${SYMDEPOT_EXECUTABLE}" check ${options} ${arg_UNPARSED_ARGUMENTS}
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    COMMENT "Checking the symbols of what ships"
    VERBATIM USES_TERMINAL)
endfunction()

function(symdepot_push)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SERVER;PRODUCT;VERSION;NAME" "")
  find_program(SYMDEPOT_EXECUTABLE symdepot DOC "The program symdepot")
  if(NOT SYMDEPOT_EXECUTABLE)
    message(FATAL_ERROR "symdepot_push: symdepot is not on the PATH; set SYMDEPOT_EXECUTABLE")
  endif()
  foreach(word IN ITEMS PRODUCT:PROJECT_NAME VERSION:PROJECT_VERSION)
    string(REPLACE ":" ";" word "${word}")
    list(GET word 0 name)
    list(GET word 1 project)
    if(NOT arg_${name})
      set(arg_${name} "${${project}}")
    endif()
  endforeach()
  if(NOT arg_NAME)
    set(arg_NAME push-symbols)
  endif()
  set(options --product "${arg_PRODUCT}")
  if(arg_VERSION)
    list(APPEND options --version "${arg_VERSION}")
  endif()
  if(arg_SERVER)
    list(APPEND options --server "${arg_SERVER}")
  endif()
  set(files "")
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    list(APPEND files "$<TARGET_FILE:${target}>")
    if(MSVC)
      list(APPEND files "$<TARGET_PDB_FILE:${target}>")
    endif()
  endforeach()
  add_custom_target(${arg_NAME}
    COMMAND "${SYMDEPOT_EXECUTABLE}" push ${options} ${files}
    DEPENDS ${arg_UNPARSED_ARGUMENTS}
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"
    COMMENT "Pushing symbols"
    VERBATIM USES_TERMINAL)
endfunction()
