// SPDX-License-Identifier: Apache-2.0
// A test on each instruction set that this host has.
#pragma once

#include <hwy/highway.h>

#include <cstdint>

namespace svp::test {

// The instruction sets of this host, one after the other, as long as it exists; then its own again.
class EachTarget {
 public:
  EachTarget() : all_(hwy::SupportedTargets() & HWY_TARGETS) {}
  ~EachTarget() { choose(0); }
  EachTarget(const EachTarget&) = delete;
  EachTarget& operator=(const EachTarget&) = delete;

  template <typename Visit>
  void visit(Visit visit) const {
    for (std::int64_t left = all_; left != 0; left &= left - 1) {
      choose(left & -left);
      visit(hwy::TargetName(left & -left));
    }
  }

 private:
  static void choose(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  std::int64_t all_;
};

}  // namespace svp::test
