# SPDX-License-Identifier: Apache-2.0
# fw_core_native: firmware/core and firmware/platform/host as a host library, for sanitizers, fuzzers and quick tests.
# The folders list their sources with the same verb as for the card (fw_library); here all of them join one library.
# It is compiled like the firmware: no exceptions, no RTTI.
add_library(fw_core_native STATIC)
target_link_libraries(fw_core_native PUBLIC spyre_options Threads::Threads)
target_compile_options(fw_core_native PRIVATE -fno-exceptions -fno-rtti)
if(SPYRE_SANITIZE MATCHES "^(address|thread)$")
  # What unit tests execute most. It takes as long to compile as with -O1 (8 s).
  target_compile_options(fw_core_native PRIVATE -O2)
endif()
set_target_properties(fw_core_native PROPERTIES UNITY_BUILD ${SPYRE_UNITY} UNITY_BUILD_BATCH_SIZE 12)

function(fw_library)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;DEPS" ${ARGN})
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  target_sources(fw_core_native PRIVATE ${arg_SOURCES})
endfunction()

function(fw_vector_sources)
  # The host's compiler may always use the host's vectors.
endfunction()

# Until the first source is there, nothing could be archived.
function(spyre_native_firmware_finish)
  get_target_property(sources fw_core_native SOURCES)
  if(NOT sources)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/fw_core_native_empty.cpp" CONTENT "" @ONLY)
    target_sources(fw_core_native PRIVATE "${CMAKE_BINARY_DIR}/fw_core_native_empty.cpp")
  endif()
endfunction()
