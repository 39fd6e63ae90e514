// SPDX-License-Identifier: Apache-2.0
// A booted native card with a hostile and a bystander function, for targets that attack the card as a whole. The
// bystander one is up, owns a region, and both its memories hold canaries.
//
// There is one card for all inputs: to boot one takes thirty times as long as most attacks. Every input begins with the
// hostile function reset and ends with the proof that a reset left nothing behind, so an input meets what the first
// met.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "tests/unit/firmware/core/played_kernels.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace fuzz {

class NativeAttacker {
 public:
  static NativeAttacker& instance();

  // `physical`: the hostile function is the PF, else VF 1. It is reset; its driver may begin.
  void begin(bool physical);
  fwtest::RawDriver& driver() { return *hostile_; }

  // A stream of the bystander for the hostile function, as M would grant it. It signals nothing.
  raw::GrantHandle grant_bystander();
  // Takes that grant back, as M would.
  void revoke_bystander();

  // One look of hart 0 at everything, and one slice of every core, as often as said. What holds of the hostile
  // function's streams, waits and buffers (function_check.hpp) is looked at behind each.
  void run_iterations(unsigned count);
  // Until nothing is left to do, kernels and resets included. Bounded: a card that never comes to rest breaks a
  // property.
  void settle();

  // The properties that hold whatever was done: canaries stand, the bystander one works, and the hostile function is as
  // good as new after status 0, with everything it held given back and an empty trace.
  void expect_contained();

 private:
  NativeAttacker();

  void look_at_hostile();
  void expect_empty_trace();
  bool slices();
  bool resets_run();
  void remember_bystander();

  fwtest::PlayedKernels kernels_;
  fwtest::TestCard card_;
  fwtest::RawDriver physical_;
  fwtest::RawDriver virtual_;
  fwtest::RawDriver* hostile_ = &virtual_;
  fwtest::RawDriver bystander_;
  fwtest::StreamHandle bystander_stream_;
  std::span<std::byte> bystander_region_;
  std::vector<std::byte> bystander_blocks_;  // its window from the FIFOs up to host memory
  std::uint64_t free_bytes_ = 0;
  std::uint64_t pages_ = 0;
};

}  // namespace fuzz
