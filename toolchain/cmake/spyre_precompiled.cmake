# SPDX-License-Identifier: Apache-2.0
# Headers that nearly every source reads, compiled once per kind of target instead of once per source. One kind per set of
# compiler flags, because clang refuses any other.
option(SPYRE_PRECOMPILED_HEADERS "Compile common headers once (off: find sources that miss an include)" ON)

# spyre_precompiled_kind(KIND [dependency...]) makes a kind from toolchain/precompiled/KIND.hpp.
function(spyre_precompiled_kind kind)
  if(NOT SPYRE_PRECOMPILED_HEADERS)
    return()
  endif()
  set(source "${CMAKE_BINARY_DIR}/precompiled/${kind}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// The owner of the precompiled header.\n" @ONLY)
  add_library(spyre_precompiled_${kind} OBJECT "${source}")
  target_link_libraries(spyre_precompiled_${kind} PRIVATE spyre_options spyre_${kind}_flags spyre_precompiled_flags ${ARGN})
  target_precompile_headers(spyre_precompiled_${kind} PRIVATE "${CMAKE_SOURCE_DIR}/toolchain/precompiled/${kind}.hpp")
  set_target_properties(spyre_precompiled_${kind} PROPERTIES CXX_CLANG_TIDY "")
endfunction()

function(spyre_use_precompiled target kind)
  target_link_libraries(${target} PRIVATE spyre_${kind}_flags)
  if(TARGET spyre_precompiled_${kind})
    target_link_libraries(${target} PRIVATE spyre_precompiled_flags)
    target_precompile_headers(${target} REUSE_FROM spyre_precompiled_${kind})
  endif()
endfunction()

# What is delivered or measured is optimised. Code of tests is not, and carries line numbers only.
add_library(spyre_library_flags INTERFACE)
if(SPYRE_SANITIZE MATCHES "^(address|thread)$")
  # Optimising instrumented code takes more than half of the time of such a build. The native firmware, which tests execute
  # most, is no such target: it keeps the -O1 of spyre_options.
  target_compile_options(spyre_library_flags INTERFACE -O0)
endif()
add_library(spyre_test_flags INTERFACE)
target_compile_options(spyre_test_flags INTERFACE -O0 -g1)

# The kind of the current folder's targets.
function(spyre_kind result)
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/tests/(unit|device|conformance|mutants|model)")
    set(${result} test PARENT_SCOPE)
  else()
    set(${result} library PARENT_SCOPE)
  endif()
endfunction()

# fmt's one definition belongs to the flags: whoever reads the precompiled header needs it, whether linked with fmt or not.
# Without the time stamp the result depends on the text only, which a compiler cache wants.
add_library(spyre_precompiled_flags INTERFACE)
target_compile_definitions(spyre_precompiled_flags INTERFACE
  "$<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>")
target_include_directories(spyre_precompiled_flags SYSTEM INTERFACE
  "$<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>")
target_compile_options(spyre_precompiled_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp")

spyre_precompiled_kind(library)
if(SPYRE_BUILD_TESTS)
  spyre_precompiled_kind(test GTest::gmock GTest::gtest)
endif()
