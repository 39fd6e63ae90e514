// SPDX-License-Identifier: Apache-2.0
// A kernel that asks the compute array for random things, on all cores of a function, beside a neighbour whose programs
// ask it for additions, and beside a bystander with canaries. On a card without array the requests do nothing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "tests/conformance/adding_neighbour.hpp"
#include "tests/conformance/bystanders.hpp"
#include "tests/conformance/hand_made_job.hpp"
#include "tests/support/expected_array.hpp"

namespace svp::conformance {
namespace {

constexpr std::uint64_t kAreaBytes = 1 * wire::kMiB;
constexpr std::uint64_t kRequests = 10'000;  // of each core of a launch
constexpr std::uint64_t kCores = 2;
constexpr unsigned kCanaryFunction = 1;  // the adding neighbour is bystander 0

// As many as make SPYRE_ARRAY_REQUESTS requests.
std::uint64_t wanted_launches() {
  const char* const text = std::getenv("SPYRE_ARRAY_REQUESTS");
  const std::uint64_t requests = text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 0) : 160'000;
  return std::max<std::uint64_t>(1, (requests + kCores * kRequests - 1) / (kCores * kRequests));
}

class ArrayAttack {
 public:
  ArrayAttack() : context_(kernel_provider().open_context()), random_(attack_seed() + 9) {
    area_ = context_->runtime().allocator().allocate(kAreaBytes);
    context_->load(other_);
  }
  svp::Context& context() { return *context_; }

  // The attack, and then an image of the same function, which requests may not change.
  void launch() {
    const std::uint64_t seed = random_() >> 1;
    const Job attack = test::job_with_symbols(*context_, "array_attack", 1, {seed, kRequests});
    const Argument argument{.allocation = area_, .shape = {1, 64}};
    stream_.Launch(attack, {&argument, 1}, {.core_mask = (1 << kCores) - 1});
    stream_.Launch(other_.jobs()[0], {});
    stream_.Synchronize(test::soon());
  }

 private:
  std::unique_ptr<svp::Context> context_;
  FlexStream& stream_ = context_->runtime().next_stream(StreamPriority::Low);
  std::mt19937_64 random_;
  AllocationIndex area_;
  ExecutionPlan other_{{Job(CompiledKernel(context_->kernel("empty"), {}))}};
};

TEST(AttacksBesideKernels, RandomArrayRequestsAreAnsweredAndReachNobodyElse) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  const std::uint64_t launches = wanted_launches();
  AddingNeighbour neighbour;
  Bystander bystander(kCanaryFunction);
  ArrayAttack attack;
  bystander.surround();
  ASSERT_EQ(attack.context().device().config().array_version != 0, test::cards_have_array());
  const std::vector<std::byte> firmware = kernel_provider().firmware_code();
  ASSERT_FALSE(firmware.empty());
  neighbour.start();
  bystander.start_work();
  for (std::uint64_t i = 0; i < launches; ++i) ASSERT_NO_THROW(attack.launch()) << "launch " << i;
  bystander.stop_work();
  neighbour.stop();
  bystander.expect_untouched();
  EXPECT_TRUE(kernel_provider().firmware_code() == firmware) << "the firmware's code or constants changed";
  expect_healthy(attack.context().device());
  provider().expect_alive();
  std::printf("  compute array: %llu requests\n", static_cast<unsigned long long>(launches * kCores * kRequests));
}

}  // namespace
}  // namespace svp::conformance
