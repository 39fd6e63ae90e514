// SPDX-License-Identifier: Apache-2.0
// What the driver says of a block that failed: the operand that a fault hit.
#include "host_driver/runtime/stream_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kBytes = 4096;

wire::Segment segment(unsigned operand) {
  return {.region_id = 0,
          .offset = operand * 2 * kBytes,
          .bytes = kBytes,
          .generation = 0,
          .access = wire::kSegmentRead,
          .reserved = {}};
}

wire::Completion store_at(std::uint64_t offset, std::uint32_t window) {
  wire::Completion completion{};
  completion.outcome = wire::Outcome::Fault;
  completion.status = wire::Status::StoreFault;
  completion.fault.access = wire::FaultAccess::Store;
  completion.fault.region_ordinal = window;
  completion.fault.offset = offset;
  return completion;
}

// A launch of `operands` of them, all in window 1, 4 KiB each with as much between them.
class Launched {
 public:
  explicit Launched(std::size_t operands) : kernel_(test::kernel_of_many(operands)) {
    block_.header.opcode = wire::Opcode::Compute;
    for (unsigned i = 0; i < operands; ++i) {
      if (i < wire::kSegments) block_.payload.compute.segments[i] = segment(i);
      if (i < wire::kSegments) windows_[i] = 1;
      table_.push_back({.segment = segment(i), .window = 1});
    }
  }
  std::string message_of(const wire::Completion& completion) const {
    return explain(describe_failure({block_, windows_, kernel_.get(), &table_}, completion)).message;
  }
  std::string operand_at(std::uint64_t offset, std::uint32_t window = 1) const {
    const OperandTable* table = table_.size() > wire::kSegments ? &table_ : nullptr;
    return describe_failure({block_, windows_, kernel_.get(), table}, store_at(offset, window)).operand;
  }

 private:
  std::shared_ptr<const Kernel> kernel_;
  wire::ControlBlock block_{};
  SegmentWindows windows_{};
  OperandTable table_;
};

TEST(StreamErrors, AFaultIsInAnOperandOrBehindTheNearestOne) {
  const Launched launch(3);
  EXPECT_EQ(launch.operand_at(2 * kBytes + 16), "t1+0x10");
  EXPECT_EQ(launch.operand_at(5 * kBytes + 8), "8 bytes behind operand t2");
  EXPECT_EQ(launch.operand_at(16, 2), "") << "another region";
}

TEST(StreamErrors, OperandsBehindTheRowsOfABlockAreNamed) {
  const Launched launch(20);
  EXPECT_EQ(launch.operand_at(2 * kBytes + 16), "t1+0x10");
  EXPECT_EQ(launch.operand_at(15 * 2 * kBytes + 16), "t15+0x10");
  EXPECT_EQ(launch.operand_at(39 * kBytes + 8), "8 bytes behind operand t19");
  const Launched largest(kMaxOperands);
  EXPECT_EQ(largest.operand_at(123 * 2 * kBytes + 16), "t123+0x10");
}

TEST(StreamErrors, CoresThatWaitedForTheOneThatFailedAreCounted) {
  const Launched launch(3);
  wire::Completion completion = store_at(2 * kBytes + 16, 1);
  EXPECT_THAT(launch.message_of(completion), testing::Not(testing::HasSubstr("waited")));
  completion.fault.waiting = 1;
  EXPECT_THAT(launch.message_of(completion), testing::HasSubstr(" while 1 core of the launch waited at the barrier"));
  completion.fault.waiting = 3;
  EXPECT_THAT(launch.message_of(completion), testing::HasSubstr(" while 3 cores of the launch waited at the barrier"));
}

}  // namespace
}  // namespace svp
