# SPDX-License-Identifier: Apache-2.0
# The kernel SDK, for projects outside of this repository (find_package(spyre) includes this file):
#
#   spyre_add_kernel(NAME scale SOURCES scale.cpp [more.cpp ...] [FOLDER dir])
#
# builds scale.img and scale.json (what spyre::Kernel::load takes) and scale.elf (symbols, for a debugger) in FOLDER, by
# default the current binary folder, as the target `scale` of the default build. Its properties SPYRE_KERNEL_IMAGE and
# SPYRE_KERNEL_METADATA are the paths of the two files. Sources are C++ and include <spyre_kernel.hpp>; they are compiled by
# clang 19 for the card, whatever compiler the project has for its own programs: SPYRE_KERNEL_COMPILER names another one.
# Needed besides clang: lld and the headers of libc++ of the same version (Debian: clang-19 lld-19 libc++-19-dev).
include_guard()
include("${CMAKE_CURRENT_LIST_DIR}/card_flags.cmake")

find_program(SPYRE_KERNEL_COMPILER NAMES clang++-19 DOC "clang that compiles device kernels")

function(spyre_kernel_libcxx result)
  if(NOT SPYRE_KERNEL_COMPILER)
    message(FATAL_ERROR "spyre_add_kernel: clang++-19 was not found; install clang-19, lld-19 and libc++-19-dev, or name the "
      "compiler in SPYRE_KERNEL_COMPILER")
  endif()
  execute_process(COMMAND "${SPYRE_KERNEL_COMPILER}" -print-resource-dir OUTPUT_VARIABLE resources
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  cmake_path(ABSOLUTE_PATH resources NORMALIZE)
  cmake_path(SET folder NORMALIZE "${resources}/../../../include/c++/v1")
  if(NOT EXISTS "${folder}/version")
    message(FATAL_ERROR "spyre_add_kernel: the headers of libc++ are not in ${folder}; install libc++-19-dev")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

function(spyre_add_kernel)
  cmake_parse_arguments(arg "" "NAME;FOLDER" "SOURCES" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "usage: spyre_add_kernel(NAME name SOURCES a.cpp... [FOLDER dir])")
  endif()
  if(NOT arg_FOLDER)
    set(arg_FOLDER "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  spyre_kernel_libcxx(libcxx)
  # In this order: the SDK's configuration of libc++ hides the host's.
  set(compile "${SPYRE_KERNEL_COMPILER}" --target=${SPYRE_CARD_TARGET} -std=c++23 -O2 -g -Wall -Wextra
    -nostdinc++ -isystem "${SPYRE_SDK_DIR}/libcxx" -isystem "${libcxx}" -isystem "${SPYRE_SDK_DIR}/newlib/include"
    "-I${SPYRE_SDK_DIR}/include" -D_GNU_SOURCE
    ${SPYRE_CARD_COMPILE_FLAGS} ${SPYRE_CARD_CXX_FLAGS} ${SPYRE_KERNEL_COMPILE_FLAGS} ${SPYRE_KERNEL_CXX_FLAGS})
  set(objects)
  # What every kernel has: the correction program, and the functions that a compiler calls on its own.
  foreach(source IN LISTS arg_SOURCES ITEMS "${SPYRE_SDK_DIR}/src/correction.cpp" "${SPYRE_SDK_DIR}/src/runtime.cpp")
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    list(LENGTH objects number)
    cmake_path(GET source STEM stem)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/spyre_kernels/${arg_NAME}/${number}_${stem}.o")
    set(extra)
    if(source STREQUAL "${SPYRE_SDK_DIR}/src/runtime.cpp")
      set(extra -fno-builtin)  # or each of its loops would be turned into a call of itself
    endif()
    add_custom_command(OUTPUT "${object}"
      COMMAND ${CMAKE_COMMAND} -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/spyre_kernels/${arg_NAME}" "${arg_FOLDER}"
      COMMAND ${compile} ${extra} -MD -MF "${object}.d" -MT "${object}" -c "${source}" -o "${object}"
      DEPENDS "${source}" DEPFILE "${object}.d" COMMENT "Kernel ${arg_NAME}: ${stem}" VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set(file "${arg_FOLDER}/${arg_NAME}")
  add_custom_command(OUTPUT "${file}.img" "${file}.json" BYPRODUCTS "${file}.elf"
    COMMAND "${SPYRE_KERNEL_COMPILER}" --target=${SPYRE_CARD_TARGET} ${SPYRE_CARD_LINK_FLAGS} ${SPYRE_KERNEL_LINK_FLAGS}
            "-Wl,-T,${SPYRE_SDK_DIR}/kernel.ld" ${objects} -o "${file}.elf"
    COMMAND "${SPYRE_PACK_KERNEL}" "${file}.elf" "${file}.img" "${file}.json"
    DEPENDS ${objects} "${SPYRE_SDK_DIR}/kernel.ld" "${SPYRE_PACK_KERNEL}"
    COMMENT "Kernel ${arg_NAME}" VERBATIM)
  add_custom_target(${arg_NAME} ALL DEPENDS "${file}.img" "${file}.json")
  set_target_properties(${arg_NAME} PROPERTIES
    SPYRE_KERNEL_IMAGE "${file}.img" SPYRE_KERNEL_METADATA "${file}.json")
endfunction()
