# SPDX-License-Identifier: Apache-2.0
# coverage-report (preset coverage): runs the unit tests and writes <build>/coverage/index.html and a summary on stdout.
if(SPYRE_COVERAGE)
  get_property(programs GLOBAL PROPERTY SPYRE_TEST_PROGRAMS)
  set(objects)
  foreach(program IN LISTS programs)
    list(APPEND objects -object "$<TARGET_FILE:${program}>")
  endforeach()
  set(profile "${CMAKE_BINARY_DIR}/coverage.profdata")
  set(ignore "--ignore-filename-regex=(/usr/|/tests/|/build/)")
  add_custom_target(coverage-report
    COMMAND find "${SPYRE_TEST_RESULTS_DIR}" -name "*.profraw" -delete
    COMMAND ctest --test-dir "${CMAKE_BINARY_DIR}" -L "^unit$$" --output-on-failure
    COMMAND sh -c "llvm-profdata-19 merge -sparse -o '${profile}' '${SPYRE_TEST_RESULTS_DIR}'/*.profraw"
    COMMAND llvm-cov-19 show ${objects} "--instr-profile=${profile}" ${ignore} --format=html
            "--output-dir=${CMAKE_BINARY_DIR}/coverage"
    COMMAND llvm-cov-19 report ${objects} "--instr-profile=${profile}" ${ignore}
    DEPENDS unit_tests USES_TERMINAL COMMAND_EXPAND_LISTS VERBATIM)
endif()
