// SPDX-License-Identifier: Apache-2.0
// PREPARED with real kernels: it launches what a COMPUTE of the ring would, and nothing that is not there any more.
#include <array>
#include <cstring>

#include "tests/conformance/card_buffers.hpp"
#include "tests/conformance/kernel_provider.hpp"

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kImageAt = 64 * wire::kKiB;

class PreparedKernels : public testing::Test {
 protected:
  void load(const char* kernel) { bench_.load(kImageAt, kernel_provider().kernel_image(kernel)); }
  std::uint64_t bytes_of(const char* kernel) { return kernel_provider().kernel_image(kernel).size(); }
  wire::Completion run(const wire::ControlBlock& block) { return bench_.run(block); }
  void reset() { EXPECT_TRUE(device_->reset_stream(0)); }

  std::unique_ptr<Device> device_ = provider().open();
  Workbench bench_{*device_};
};

TEST_F(PreparedKernels, RunOnOneCoreAndOnAll) {
  load("empty");
  for (const std::uint64_t mask : {1, 3}) {
    const auto buffer = buffer_of(*device_, std::array{bench_.compute(kImageAt, bytes_of("empty"), mask)});
    for (int i = 0; i < 20; ++i) {
      const auto end = run(call_of(buffer, Opcode::Prepared));
      EXPECT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
      EXPECT_NE(end.start_time, 0u);
    }
  }
  expect_healthy(*device_);
}

TEST_F(PreparedKernels, AnEndlessOneIsEndedByTheWatchdog) {
  load("spin");
  const auto buffer = buffer_of(*device_, std::array{bench_.compute(kImageAt, bytes_of("spin"), 1, 5)});
  for (int i = 0; i < 2; ++i) {
    const auto end = run(call_of(buffer, Opcode::Prepared));
    EXPECT_EQ(end.outcome, Outcome::Timeout);
    EXPECT_EQ(end.status, Status::WatchdogExpired) << wire::name(end.status);
    reset();
  }
}

TEST_F(PreparedKernels, AnImageThatWasOverwrittenIsNotRun) {
  load("empty");
  const auto buffer = buffer_of(*device_, std::array{bench_.compute(kImageAt, bytes_of("empty"))});
  EXPECT_EQ(run(call_of(buffer, Opcode::Prepared)).outcome, Outcome::Ok);
  EXPECT_EQ(run(Workbench::fill(bench_.program(kImageAt), 128, 0)).outcome, Outcome::Ok);
  const auto end = run(call_of(buffer, Opcode::Prepared));
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, Status::ImageMagic) << wire::name(end.status);
  EXPECT_EQ(end.field, Field::ImageHeaderField);
  reset();
  load("empty");
  EXPECT_EQ(run(call_of(buffer, Opcode::Prepared)).outcome, Outcome::Ok);
  // In the middle of a call it is a fault of the block behind.
  const std::array blocks{bench_.compute(kImageAt, bytes_of("empty")),
                          Workbench::fill(bench_.program(kImageAt), 128, 0),
                          bench_.compute(kImageAt, bytes_of("empty"))};
  const auto middle = run(call_of(buffer_of(*device_, blocks)));
  EXPECT_EQ(middle.outcome, Outcome::Fault);
  EXPECT_EQ(middle.status, Status::ImageMagic) << wire::name(middle.status);
  EXPECT_EQ(middle.block, 2u);
  reset();
  expect_healthy(*device_);
}

}  // namespace
}  // namespace svp::conformance
