// SPDX-License-Identifier: Apache-2.0
// What is sent to program memory: a damaged binary is refused before anything of it is sent.
#include <gmock/gmock.h>

#include <cstring>
#include <string>

#include "tests/conformance/flex/flex_runtime.hpp"

namespace flex_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FlexPrepare : public FlexRuntime {
 protected:
  // A binary's first bytes (docs/spyrecode.md) in a memory of their own.
  static std::string refusal_of(std::uint32_t version, std::uint64_t bytes_it_says, std::size_t bytes_sent,
                                std::size_t offset = 0) {
    std::vector<std::uint8_t> bytes(bytes_sent);
    std::memcpy(bytes.data(), "SPYRBIN1", 8);
    std::memcpy(bytes.data() + 8, &version, sizeof version);
    std::memcpy(bytes.data() + 16, &bytes_it_says, sizeof bytes_it_says);
    const auto program = allocator().allocate(8192, program_memory());
    const auto before = content(program);
    const std::string what =
        what_of([&] { send(stream(), bytes.data(), bytes.size(), part_of(program, offset, bytes.size())); });
    EXPECT_EQ(content(program), before);
    return what;
  }
};

TEST_F(FlexPrepare, ADamagedBinaryIsRefusedWhenItIsSent) {
  for (const std::uint32_t version : {1U, 2U, 3U}) {
    EXPECT_THAT(refusal_of(version, 512, 512), AllOf(HasSubstr("the binary for byte 0 of program memory"),
                                                     HasSubstr("checksum"), HasSubstr("next: ")));
    EXPECT_THAT(refusal_of(version, 4096, 512, 1024),
                AllOf(HasSubstr("the binary for byte 1024 of program memory"), HasSubstr("512 of 4096 bytes")));
    EXPECT_THAT(refusal_of(version, 0, 512), HasSubstr("says that it has 0 bytes"));
  }
  EXPECT_THAT(refusal_of(9, 512, 512), HasSubstr("version 9"));
  EXPECT_FALSE(runtime->hasStreamError());
}

TEST_F(FlexPrepare, BytesThatAreNoBinaryAreSent) {
  const auto program = allocator().allocate(4096, program_memory());
  const auto bytes = counted_bytes(1024);
  send(stream(), bytes.data(), bytes.size(), part_of(program, 128, 1024));
  EXPECT_EQ(content(part_of(program, 128, 1024)), bytes);
}

}  // namespace
}  // namespace flex_test
