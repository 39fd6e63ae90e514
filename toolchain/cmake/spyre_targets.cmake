# SPDX-License-Identifier: Apache-2.0
# The few verbs that every folder's CMakeLists.txt is written with:
#
#   spyre_library(NAME svp_memory SOURCES a.cpp b.cpp DEPS svp_base deps_hwy)   static library
#   spyre_executable(NAME spyre SOURCES main.cpp DEPS svp_device deps_cli)
#   spyre_test(NAME memory_test SOURCES memory_test.cpp DEPS svp_memory)          GoogleTest, label unit
#   spyre_device_test(NAME boot_test SOURCES boot_test.cpp DEPS qemu_machine)      GoogleTest, label device
#   spyre_benchmark(NAME memory_bench SOURCES memory_bench.cpp DEPS svp_memory)   Google Benchmark, not run by tests
#   … SEQUENTIAL        (a unit test) starts no thread, is therefore not built under TSan, and fails when it does start one
#   … OPTIMISED   optimised in sanitizer builds too, where nothing else is: for what tests execute for seconds. Not with the
#                 precompiled headers, which are of one kind of flags, so a few seconds more to compile
#   … FUNCTIONS PF VF   (either kind of test)   one program, one ctest entry per function of the card: <name>_pf, <name>_vf;
#                                           SPYRE_TEST_FUNCTION tells the program which
#   spyre_script_test(NAME plan COMMAND program arg... LABEL unit [DEPENDS target...])
#                                                                                  anything else; one test; 77 = skipped
#
# One run of a test program is one ctest entry, so that the cases of a device test share a booted card. Each run writes a
# GoogleTest XML report into <build>/test-results, from which scripts/test counts cases.
set(SPYRE_TEST_RESULTS_DIR "${CMAKE_BINARY_DIR}/test-results")
file(MAKE_DIRECTORY "${SPYRE_TEST_RESULTS_DIR}")

# Ends a test that hangs, and no other: on two CPUs that others use, the longest ones take ten times what they take alone.
set(SPYRE_HANG_SECONDS 1800)

# Umbrella targets, so that a sanitizer preset builds only what it will run.
add_custom_target(unit_tests)
add_custom_target(device_tests)

macro(spyre_parse_target)
  cmake_parse_arguments(arg "SEQUENTIAL;OPTIMISED" "NAME" "SOURCES;DEPS;FUNCTIONS" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "usage: ${CMAKE_CURRENT_FUNCTION}(NAME name SOURCES a.cpp... [DEPS target...]); "
      "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
endmacro()

# How the target is optimised, and its precompiled headers.
function(spyre_use_kind target kind optimised)
  if(optimised AND SPYRE_SANITIZE MATCHES "^(address|thread)$")
    target_compile_options(${target} PRIVATE -O2)
  else()
    spyre_use_precompiled(${target} ${kind})
  endif()
endfunction()

function(spyre_library)
  spyre_parse_target(${ARGN})
  add_library(${arg_NAME} STATIC ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PUBLIC spyre_options ${arg_DEPS})
  set_target_properties(${arg_NAME} PROPERTIES UNITY_BUILD ${SPYRE_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  spyre_kind(kind)
  spyre_use_kind(${arg_NAME} ${kind} "${arg_OPTIMISED}")
endfunction()

function(spyre_executable)
  spyre_parse_target(${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE spyre_options ${arg_DEPS})
  spyre_kind(kind)
  spyre_use_precompiled(${arg_NAME} ${kind})
endfunction()

function(spyre_benchmark)
  spyre_parse_target(${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE spyre_options ${arg_DEPS} deps_benchmark Threads::Threads)
  spyre_use_precompiled(${arg_NAME} library)
endfunction()

# A sanitizer that only printed would let a test pass: every report ends the program.
set(SPYRE_TEST_ENVIRONMENT
  "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1"
  "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")

# One run of a test program: `entry` is its name in ctest and of its report, the rest is its environment.
function(spyre_gtest_entry entry program label)
  add_test(NAME ${entry} COMMAND ${program} "--gtest_output=xml:${SPYRE_TEST_RESULTS_DIR}/${entry}.xml" --gtest_brief=1)
  set_tests_properties(${entry} PROPERTIES LABELS ${label} TIMEOUT ${SPYRE_HANG_SECONDS} ENVIRONMENT
    "${SPYRE_TEST_ENVIRONMENT};LLVM_PROFILE_FILE=${SPYRE_TEST_RESULTS_DIR}/${entry}-%p.profraw;${ARGN}")
  if(label STREQUAL "device")
    # Emulators are heavy and small machines are few-cored: the lock is the one global limit on concurrent cards.
    set_tests_properties(${entry} PROPERTIES RESOURCE_LOCK emulator)
  endif()
endfunction()

function(spyre_gtest_program name sources deps optimised)
  add_executable(${name} EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${name} PRIVATE spyre_options ${deps} GTest::gmock GTest::gtest GTest::gmock_main Threads::Threads)
  spyre_use_kind(${name} test "${optimised}")
endfunction()

function(spyre_gtest_entries name label functions)
  add_dependencies(${label}_tests ${name})
  if(label STREQUAL "unit")
    set_property(GLOBAL APPEND PROPERTY SPYRE_TEST_PROGRAMS ${name})
  endif()
  if(NOT functions)
    spyre_gtest_entry(${name} ${name} ${label})
  endif()
  foreach(function IN LISTS functions)
    string(TOLOWER ${function} suffix)
    spyre_gtest_entry(${name}_${suffix} ${name} ${label} "SPYRE_TEST_FUNCTION=${function}")
  endforeach()
endfunction()

function(spyre_test)
  spyre_parse_target(${ARGN})
  spyre_gtest_program(${arg_NAME} "${arg_SOURCES}" "${arg_DEPS}" "${arg_OPTIMISED}")
  if(arg_SEQUENTIAL)
    if(SPYRE_SANITIZE STREQUAL "thread")
      return()
    endif()
    target_link_libraries(${arg_NAME} PRIVATE spyre_sequential_guard)
  endif()
  spyre_gtest_entries(${arg_NAME} unit "${arg_FUNCTIONS}")
endfunction()

function(spyre_device_test)
  spyre_parse_target(${ARGN})
  spyre_gtest_program(${arg_NAME} "${arg_SOURCES}" "${arg_DEPS};spyre_firmware_location" "${arg_OPTIMISED}")
  spyre_gtest_entries(${arg_NAME} device "${arg_FUNCTIONS}")
  foreach(part IN ITEMS firmware spyre_array)
    if(TARGET ${part})
      add_dependencies(${arg_NAME} ${part})
    endif()
  endforeach()
endfunction()

# Cards have the compute array of the build (docs/array.md). The same program over cards without it; FILTER: of its tests,
# these. MIXED: again over cards whose array refuses every second request, others on each function.
#   spyre_no_array_test(PROGRAM conformance_device_test FILTER StrayKernels.* FUNCTIONS PF VF)
function(spyre_no_array_test)
  cmake_parse_arguments(arg "MIXED" "PROGRAM;FILTER" "FUNCTIONS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "spyre_no_array_test(PROGRAM ${arg_PROGRAM} …): not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if("${arg_FILTER}" STREQUAL "" OR "${arg_FUNCTIONS}" STREQUAL "")
    message(FATAL_ERROR "spyre_no_array_test(PROGRAM ${arg_PROGRAM} …): without FILTER and FUNCTIONS it runs no test")
  endif()
  target_compile_definitions(${arg_PROGRAM} PRIVATE SPYRE_BUILD_HAS_ARRAY=$<TARGET_EXISTS:spyre_array>)
  if(NOT TARGET spyre_array)
    return()
  endif()
  set(seed 0)
  foreach(function IN LISTS arg_FUNCTIONS)
    math(EXPR seed "${seed} + 1")
    string(TOLOWER ${function} suffix)
    set(common ${arg_PROGRAM} device "SPYRE_TEST_FUNCTION=${function}" "GTEST_FILTER=${arg_FILTER}")
    string(REPLACE "_device_test" "_no_array_device_test" name ${arg_PROGRAM})
    spyre_gtest_entry(${name}_${suffix} ${common} "SPYRE_ARRAY=off")
    if(arg_MIXED)
      string(REPLACE "_device_test" "_mixed_array_device_test" name ${arg_PROGRAM})
      spyre_gtest_entry(${name}_${suffix} ${common} "SPYRE_ARRAY_MIXED=${seed}")
    endif()
  endforeach()
endfunction()

# A unit test of this kind is left out under TSan: what a script runs is not instrumented there.
function(spyre_script_test)
  cmake_parse_arguments(arg "" "NAME;LABEL" "COMMAND;DEPENDS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "spyre_script_test(NAME ${arg_NAME} …): not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(SPYRE_SANITIZE STREQUAL "thread" AND arg_LABEL STREQUAL "unit")
    return()
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${SPYRE_HANG_SECONDS} SKIP_RETURN_CODE 77)
  if(arg_DEPENDS)
    add_dependencies(${arg_LABEL}_tests ${arg_DEPENDS})
  endif()
  if(arg_LABEL STREQUAL "device")
    set_tests_properties(${arg_NAME} PROPERTIES RESOURCE_LOCK emulator)
  endif()
endfunction()
