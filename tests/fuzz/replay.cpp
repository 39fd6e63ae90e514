// SPDX-License-Identifier: Apache-2.0
// Replays a target's corpus (SPYRE_CORPUS, a folder): seeds, what the fuzzer found worth keeping, and every input that
// ever broke a property.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

namespace {

TEST(Corpus, HoldsEveryProperty) {
  std::set<std::filesystem::path> inputs;  // in an order that does not depend on the file system
  for (const auto& entry : std::filesystem::directory_iterator(SPYRE_CORPUS)) inputs.insert(entry.path());
  ASSERT_FALSE(inputs.empty()) << "no input in " << SPYRE_CORPUS;
  for (const auto& path : inputs) {
    // Before the run: a property or a sanitizer ends the program.
    std::fprintf(stderr, "%s\n", path.filename().c_str());
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    fuzz::run(fuzz::Input(std::as_bytes(std::span(bytes))));
    ASSERT_FALSE(HasFailure()) << path;
  }
}

// What no corpus holds: nothing at all, and one byte of each value.
TEST(Corpus, IsNotNeededForTheSmallestInputs) {
  fuzz::run(fuzz::Input({}));
  for (unsigned value = 0; value < 256; value += 51) {
    const std::byte byte{static_cast<unsigned char>(value)};
    fuzz::run(fuzz::Input({&byte, 1}));
  }
}

}  // namespace
