# SPDX-License-Identifier: Apache-2.0
# Option sets for code that runs on the card, and the verbs of its CMakeLists.txt files:
#
#   fw_library(NAME fw_core SOURCES a.cpp b.S [DEPS fw_x])   part of the firmware; joins spyre-firmware.elf
#   fw_vector_sources(copy.cpp ...)                          these sources of the current folder may use v registers
#   kernel_options                                           options of device kernels (U-mode, full RV64GCV)
#
# SPYRE_NEWLIB_DIR is the prefix that toolchain/newlib/build filled.
include(spyre_warnings)
include(card_flags)

set(SPYRE_NEWLIB_DIR "" CACHE PATH "Prefix of the newlib build")
set(newlib_prefix "${SPYRE_NEWLIB_DIR}/riscv64-unknown-elf")
get_filename_component(spyre_root "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

set(FW_MARCH rv64imac_zicsr_zifencei_zihintpause)
# Integer vectors only: a copy loop gets no access to f registers. One register is one stick (VLEN 1024).
set(FW_VECTOR_MARCH ${FW_MARCH}_zve64x_zvl1024b)

file(GLOB libcxx_headers /usr/lib/llvm-19/include/c++/v1)
if(NOT libcxx_headers)
  message(FATAL_ERROR "libc++ headers not found: run scripts/bootstrap (package libc++-19-dev)")
endif()

# gcc's runtime (128-bit division and the like); clang's own is not packaged for this target.
execute_process(COMMAND riscv64-unknown-elf-gcc -march=rv64imac -mabi=lp64 -print-libgcc-file-name
  OUTPUT_VARIABLE FW_LIBGCC OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT EXISTS "${FW_LIBGCC}")
  message(FATAL_ERROR "libgcc for rv64imac/lp64 not found: run scripts/bootstrap (package gcc-riscv64-unknown-elf)")
endif()

# ---- common to firmware and kernels ---------------------------------------------------------------------------------
add_library(card_options INTERFACE)
# In this order: our libc++ configuration hides the host's. Options and not include directories, because CMake drops a
# directory that it takes for one of the compiler's own.
target_compile_options(card_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-nostdinc++>
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-isystem \"${spyre_root}/toolchain/libcxx\" -isystem \"${libcxx_headers}\">"
  "SHELL:-isystem \"${newlib_prefix}/include\"")
target_include_directories(card_options INTERFACE "${spyre_root}" "${spyre_root}/include")
target_compile_definitions(card_options INTERFACE _GNU_SOURCE)
target_compile_options(card_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:${SPYRE_WARNINGS}>
  "$<$<COMPILE_LANGUAGE:CXX>:${SPYRE_CARD_CXX_FLAGS}>"
  "-fmacro-prefix-map=${spyre_root}/="
  ${SPYRE_CARD_COMPILE_FLAGS})
target_link_options(card_options INTERFACE ${SPYRE_CARD_LINK_FLAGS})

# ---- firmware: M-mode -------------------------------------------------------------------------------------------------
# Soft float and no vectors: M-mode code runs while a suspended kernel's f and v registers are live, and code that can
# not name those registers can not spoil them. Not -ffreestanding: it would make every small memcpy a call, and
# newlib is a complete C library.
add_library(fw_options INTERFACE)
# Shared memory is read and written through several types, as words and as structures: no conclusions from types.
target_compile_options(fw_options INTERFACE -march=${FW_MARCH} -mabi=lp64 -fno-pic -flto -fno-strict-aliasing)
# A fatal record names the build that it is of.
target_link_options(fw_options INTERFACE -march=${FW_MARCH} -mabi=lp64 -static -Wl,--build-id=sha1)
target_link_libraries(fw_options INTERFACE card_options)

function(fw_library)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;DEPS" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "usage: fw_library(NAME name SOURCES a.cpp... [DEPS target...])")
  endif()
  # Objects, not an archive: a vector table or a strong override is never dropped because nobody asked for it first.
  add_library(${arg_NAME} OBJECT ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PUBLIC fw_options ${arg_DEPS})
  set_property(GLOBAL APPEND PROPERTY FW_LIBRARIES ${arg_NAME})
endfunction()

function(fw_vector_sources)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -march=${FW_VECTOR_MARCH})
endfunction()

# ---- kernels: U-mode --------------------------------------------------------------------------------------------------
add_library(kernel_options INTERFACE)
target_compile_options(kernel_options INTERFACE ${SPYRE_KERNEL_COMPILE_FLAGS})
target_link_options(kernel_options INTERFACE ${SPYRE_KERNEL_LINK_FLAGS})
target_link_libraries(kernel_options INTERFACE card_options)
