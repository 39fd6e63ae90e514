# SPDX-License-Identifier: Apache-2.0
# Drives what runs on the card from the host build: target newlib, target firmware (which needs newlib).
# Neither depends on the preset, so both live in SPYRE_SHARED_BUILD_DIR and are built once for all presets. The steps
# run always and decide for themselves whether something is to do; a lock lets presets build at the same time.
set(SPYRE_NEWLIB_DIR "${SPYRE_SHARED_BUILD_DIR}/newlib")
set(SPYRE_FIRMWARE_DIR "${SPYRE_SHARED_BUILD_DIR}/firmware")

# The host code looks for the firmware relative to itself (qemu/find_firmware.cpp): "firmware" in a folder above it. A build
# folder elsewhere gets a link.
cmake_path(GET CMAKE_BINARY_DIR PARENT_PATH spyre_beside_binary_dir)
if(NOT spyre_beside_binary_dir STREQUAL SPYRE_SHARED_BUILD_DIR)
  file(CREATE_LINK "${SPYRE_FIRMWARE_DIR}" "${CMAKE_BINARY_DIR}/firmware" SYMBOLIC)
endif()

# For tests that name a file of it.
add_library(spyre_firmware_location INTERFACE)
target_compile_definitions(spyre_firmware_location INTERFACE
  SPYRE_DEFAULT_FIRMWARE="${SPYRE_FIRMWARE_DIR}/spyre-firmware.elf"
  SPYRE_DEFAULT_KERNEL_DIR="${SPYRE_FIRMWARE_DIR}/kernels")

if(SPYRE_BUILD_FIRMWARE)
  set(all ALL)
endif()
add_custom_target(newlib ${all}
  COMMAND "${CMAKE_SOURCE_DIR}/toolchain/newlib/build" "${SPYRE_NEWLIB_DIR}"
  COMMENT "newlib (built once)" USES_TERMINAL VERBATIM)
add_custom_target(firmware ${all}
  COMMAND "${CMAKE_SOURCE_DIR}/toolchain/firmware_build" "${SPYRE_FIRMWARE_DIR}" "${SPYRE_NEWLIB_DIR}"
  COMMENT "firmware and device kernels" USES_TERMINAL VERBATIM)
add_dependencies(firmware newlib)
