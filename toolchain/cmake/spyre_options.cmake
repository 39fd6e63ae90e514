# SPDX-License-Identifier: Apache-2.0
# spyre_options: the compile and link options of every host target (language, warnings, sanitizers, coverage).
include(spyre_warnings)

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR "clang 19 or newer is needed, found ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}: "
    "run scripts/bootstrap and configure with a preset (cmake --preset release)")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 17)
# Assertions stay in every build, so no -DNDEBUG here: they are part of what a card-less test is run for.
if(SPYRE_SANITIZE MATCHES "^(address|thread)$")
  # Sanitizer reports need line numbers and no more. Functions that are declared inline are inlined: the standard
  # library's small ones are most of what -O1 executes, and what is inlined everywhere is not compiled once more.
  set(optimisation "-O1 -finline-hint-functions -gline-tables-only")
else()
  set(optimisation "-O2 -g")
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "${optimisation}")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${optimisation}")

add_library(spyre_options INTERFACE)
target_include_directories(spyre_options INTERFACE "${CMAKE_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}/include")
# One kind of code for libraries and programs (-fPIC also where -fPIE would do), so that they can share precompiled headers.
# Shared memory is read and written through several types, as words and as structures: no conclusions from types.
target_compile_options(spyre_options INTERFACE ${SPYRE_WARNINGS} -fPIC -fvisibility=hidden -fno-omit-frame-pointer -fno-strict-aliasing)
target_compile_definitions(spyre_options INTERFACE _GNU_SOURCE)
target_link_options(spyre_options INTERFACE -fuse-ld=lld)

if(SPYRE_SANITIZE STREQUAL "address")
  set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(SPYRE_SANITIZE STREQUAL "thread")
  set(sanitizer_flags -fsanitize=thread)
elseif(SPYRE_SANITIZE STREQUAL "fuzz")
  # Coverage feedback in everything; the fuzzer's own main() only in the targets of tests/fuzz.
  set(sanitizer_flags -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all)
elseif(SPYRE_SANITIZE)
  message(FATAL_ERROR "SPYRE_SANITIZE=${SPYRE_SANITIZE}: known values are address, thread and fuzz")
endif()
if(SPYRE_COVERAGE)
  list(APPEND sanitizer_flags -fprofile-instr-generate -fcoverage-mapping)
endif()
target_compile_options(spyre_options INTERFACE ${sanitizer_flags})
target_link_options(spyre_options INTERFACE ${sanitizer_flags})

if(SPYRE_CLANG_TIDY)
  find_program(SPYRE_CLANG_TIDY_PROGRAM NAMES clang-tidy-19 REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY "${SPYRE_CLANG_TIDY_PROGRAM}" --quiet)
endif()
