// SPDX-License-Identifier: Apache-2.0
// A program has names of its own where the driver has some: both are used in one process.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/conformance/flex/flex_runtime.hpp"

// As torch-spyre has them, and as the driver does.
namespace spyre {

struct SpyreAllocator {
  static SpyreAllocator& instance();
  std::size_t allocate(std::size_t bytes);
  std::size_t allocated = 0;
};
__attribute__((visibility("default"))) SpyreAllocator& SpyreAllocator::instance() {
  static SpyreAllocator allocator;
  return allocator;
}
__attribute__((visibility("default"))) std::size_t SpyreAllocator::allocate(std::size_t bytes) {
  return allocated += bytes;
}

struct SpyreStream {
  __attribute__((visibility("default"))) bool query() const { return false; }
};

inline namespace v0 {
class __attribute__((visibility("default"))) Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
}  // namespace v0

}  // namespace spyre

namespace svp {
class __attribute__((visibility("default"))) FlexAllocator {
 public:
  virtual ~FlexAllocator() = default;
  virtual int number() const { return 42; }
};
}  // namespace svp

namespace flex_test {
namespace {

class FlexForeignNames : public FlexRuntime {};

TEST_F(FlexForeignNames, StayTheProgramsOwn) {
  auto memory = tensor(4096);
  EXPECT_EQ(spyre::SpyreAllocator::instance().allocate(memory.total_size()), 4096U);
  EXPECT_FALSE(spyre::SpyreStream().query());
  EXPECT_EQ(svp::FlexAllocator().number(), 42);
  const auto bytes = counted_bytes(4096);
  send(stream(), bytes.data(), bytes.size(), memory);
  EXPECT_EQ(content(memory), bytes);
  EXPECT_TRUE(stream().query());
}

// The driver's own type of errors has the name of this one, and stays inside.
TEST_F(FlexForeignNames, ErrorsOfTheRuntimeAreStandardOnes) {
  try {
    stream().launchOperationD2H(nullptr);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const spyre::Error&) {
    ADD_FAILURE() << "an error of the program's own type";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(typeid(error), typeid(std::runtime_error));
  }
}

}  // namespace
}  // namespace flex_test
