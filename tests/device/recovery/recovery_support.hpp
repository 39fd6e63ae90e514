// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: a card with several owners, each of which can tell whether it was touched.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/frontend/context.hpp"
#include "tests/bounds.hpp"
#include "tests/device/card/card_support.hpp"

namespace svp::test {

inline FlexStream::Clock::time_point in_time() { return FlexStream::Clock::now() + test_bounds::kCompute; }

// One function of a shared card with everything that a recovery could damage.
class Owner {
 public:
  Owner(std::shared_ptr<Card> card, unsigned function, RecoveryOptions recovery = {});

  svp::Context& context() { return *context_; }
  Runtime& runtime() { return context_->runtime(); }
  FlexStream& stream() { return runtime().default_stream(); }
  Job kernel(const char* name);  // loaded

  // A pattern in the card's memory, and one in pinned memory.
  void leave_patterns();
  void expect_patterns();         // untouched
  void expect_handles_refused();  // cleared by a recovery: LostInReset
  void expect_pinned_pattern();

  // A round of everything: allocation, transfer, kernel, a second stream.
  void expect_works();
  // A device program whose copies the compute array makes, where the card has one: the result is right.
  void expect_computes();
  // Work that ends by nothing but a reset or the watchdog, and work behind it. Returns how many launches there are.
  unsigned start_endless_work();
  // The same of device programs that ask the compute array all the time; each moves 128 GB. They have written their
  // output when this returns.
  unsigned start_endless_array_work();

 private:
  // So many times an operation that the array executes by one request. Reads operand 0, writes operand 1.
  Job copies(std::uint32_t times);
  AllocationIndex holding(const std::vector<std::byte>& bytes);
  // Of the card's memory, now: by a stream of its own, whatever runs.
  std::vector<std::byte> content_of(AllocationIndex memory, std::size_t bytes);

  std::unique_ptr<svp::Context> context_;
  std::uint64_t seed_;
  AllocationIndex memory_ = AllocationIndex::Null;
  PinnedBuffer pinned_;
};

// Waits on a thread of its own for everything launched on a stream. It waits when the constructor returns.
class Waiter {
 public:
  explicit Waiter(FlexStream& stream);
  ~Waiter() { (void)told(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Until the wait is over: the error that it threw. Nothing: it threw none.
  std::optional<ErrorInfo> told();

 private:
  std::atomic<long> number_{0};  // of the thread, for the kernel
  std::optional<ErrorInfo> told_;
  std::thread thread_;  // last: it writes the others
};

// Counts how the launches of it end.
class LaunchEndings final : public LaunchObserver {
 public:
  void on_block(const BlockRecord&) noexcept override {}
  void on_launch_ended(std::uint64_t launch, wire::Outcome outcome) noexcept override;
  std::vector<wire::Outcome> outcomes() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, wire::Outcome>> ended_;
};

}  // namespace svp::test
