// SPDX-License-Identifier: Apache-2.0
// Element-wise operations as rows of sticks: inputs and output have the same lanes. An input without a stick dimension,
// beside an output with one, stands for sticks whose lanes all hold its element; so does every input of an output
// without a stick dimension.
#pragma once

#include <cstdint>

#include "firmware/kernels/engine/loop_nest.hpp"
#include "firmware/kernels/engine/masks.hpp"

namespace kernel::engine {

inline constexpr unsigned kMaxRowInputs = 5;

struct Rows {
  const std::byte* in[kMaxRowInputs];
  std::uint64_t in_step[kMaxRowInputs];  // bytes
  std::byte* out;
  std::uint64_t out_step;
  std::uint64_t count;  // sticks
  // In its sticks only lane 0 counts (for_each_given).
  bool single[kMaxRowInputs];
};

// The rows of this core, and afterwards the masks of the operation. All operands have lanes of the same size.
class RowWalk {
 public:
  // The first `inputs` operands and the output take part.
  RowWalk(const Work& work, unsigned inputs);

  Refusal refusal() const { return refusal_.ok() ? nest_.refusal() : refusal_; }

  // Inputs of single elements as sticks that are made of them.
  template <typename Visit>
  Refusal for_each(Visit visit) {
    return for_each_run([&](const Run& run) {
      Rows rows;
      for (std::uint64_t done = given_to_array(run); done < run.count; done += rows.count) {
        take(run, done, rows);
        if (any_single_) make_sticks(run, rows);
        visit(rows);
      }
    });
  }
  // Inputs as they lie: Rows::single tells what single elements are.
  template <typename Visit>
  Refusal for_each_given(Visit visit) {
    return for_each_run([&](const Run& run) {
      const std::uint64_t done = given_to_array(run);
      if (done == run.count) return;
      Rows rows;
      take(run, done, rows);
      visit(rows);
    });
  }

 private:
  template <typename Visit>
  Refusal for_each_run(Visit visit) {
    if (!refusal().ok()) return refusal();
    const Box box = nest_.share();
    nest_.for_each_run(box, visit);
    if (work_.operation.mask_count != 0) write_masks(work_, nest_, box);
    return {};
  }

  static constexpr unsigned kSticks = 64;  // that are made at a time
  static constexpr std::uint64_t kFewestForArray = 4;
  struct Buffers {
    std::byte stick[kMaxRowInputs][kSticks][wire::kStickBytes];
  };
  static_assert(sizeof(Buffers) <= kWorkingBytes);

  // How many sticks of the run, from the first one on, the compute array has made.
  std::uint64_t given_to_array(const Run& run) {
    if (work_.array == nullptr || run.count < kFewestForArray || array_refused_) return 0;
    return give_to_array(run);
  }
  std::uint64_t give_to_array(const Run& run);

  // The sticks of a run from `done` on.
  void take(const Run& run, std::uint64_t done, Rows& rows) const;
  // As many of them as there is room for.
  void make_sticks(const Run& run, Rows& rows);

  const Work& work_;
  unsigned inputs_;
  unsigned item_;
  Refusal refusal_;
  bool any_single_ = false;
  bool array_refused_ = false;
  bool single_[kMaxRowInputs]{};
  LoopNest nest_;
};

}  // namespace kernel::engine
