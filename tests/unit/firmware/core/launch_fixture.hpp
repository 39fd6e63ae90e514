// SPDX-License-Identifier: Apache-2.0
// A card whose kernels are played, with one function brought up and all programs in its Program region. Its cores work
// when the test says so (slice), or on threads of their own (TestCard::start_loop).
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/unit/firmware/core/played_kernels.hpp"

namespace fwtest {

class Launch : public testing::Test {
 protected:
  explicit Launch(unsigned harts = 1, std::uint64_t page_bytes = 1024 * wire::kMiB, unsigned virtual_functions = 2,
                  const std::string& more_arguments = {}, std::optional<native::WorkClock> clock = {})
      : card_({.virtual_functions = virtual_functions,
               .harts = harts,
               .region_bytes = 256 * wire::kMiB,
               .boot_arguments = "watchdog=3 " + more_arguments,
               .kernel = kernels_.player(),
               .clock = clock,
               .page_bytes = page_bytes}) {
    kernels_.board = &card_.board();
    EXPECT_TRUE(driver_.bring_up(wire::kMandatoryFeatures | wire::kFeatureIndirectDesc));
    programs_ = load_programs(driver_, stream_);
  }
  ~Launch() override { card_.stop_loop(); }

  wire::ControlBlock block(StreamHandle& stream, Program program, std::uint64_t mask = 0) {
    return launch_of(driver_, stream, programs_, program, mask);
  }
  // The cores' work by hand, in this thread. False when there was none.
  bool slice() {
    bool any = false;
    for (unsigned hart = 0; hart < card_.card().core_count(); ++hart) {
      native::become_hart(hart);
      any |= card_.card().launches.run_slice(hart, fw::kSliceTicks);
    }
    native::become_hart(0);
    return any;
  }
  wire::Completion run(Program program, std::uint64_t mask = 0) {
    driver_.submit(block(stream_, program, mask));
    for (int i = 0; i < 1000; ++i) {
      card_.run_until_idle();
      if (const auto ended = driver_.collect(); !ended.empty()) {
        EXPECT_EQ(ended.size(), 1u);
        return ended[0].completion;
      }
      slice();
    }
    ADD_FAILURE() << "the launch never ended";
    return {};
  }

  PlayedKernels kernels_;
  TestCard card_;
  RawDriver& driver_ = card_.driver(2);
  StreamHandle stream_;
  RegionHandle programs_{};
};

}  // namespace fwtest
