// SPDX-License-Identifier: Apache-2.0
// The doors that libFuzzer calls.
#include <gtest/gtest.h>

#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // The raw driver of the unit tests reports what it finds through GoogleTest: here that has to end the run.
  GTEST_FLAG_SET(break_on_failure, true);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run(fuzz::Input(std::as_bytes(std::span(data, size))));
  return 0;
}
