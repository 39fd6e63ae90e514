// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The lists of TopK. Sticks without an element for a list are passed over by vector instructions; an element that is
// better than the last of a full list is inserted at its place.
#include <algorithm>
#include <cstring>
#include <functional>

#include "qemu/array/top_k.hpp"
#include "shared/array_merit.hpp"
#include "shared/device_program.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qemu/array/top_k_functions.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef SPYRE_QEMU_ARRAY_TOP_K_FUNCTIONS
#define SPYRE_QEMU_ARRAY_TOP_K_FUNCTIONS
namespace svp::array {

inline constexpr unsigned kMaxLanes = wire::kStickBytes / sizeof(std::uint16_t);

// The orders of the elements of one stick; 0: the stick has no such lane, or the list has room for every element.
struct StickOrders {
  std::uint32_t lane[kMaxLanes];
};

}  // namespace svp::array
#endif

HWY_BEFORE_NAMESPACE();
namespace svp::array {
namespace HWY_NAMESPACE {
namespace {

// True: one is larger than what the lane's list has as its last.
template <typename Code>
HWY_INLINE bool find(const std::byte* stick, unsigned lanes, const StickOrders& last, StickOrders& found) {
  constexpr unsigned kLanes = wire::kStickBytes / sizeof(Code);
  Code code[kLanes];
  std::memcpy(code, stick, sizeof code);
  for (unsigned c = 0; c < kLanes; ++c) found.lane[c] = wire::array::order_of(code[c]);
  for (unsigned c = lanes; c < kLanes; ++c) found.lane[c] = 0;
  std::uint32_t any = 0;
  for (unsigned c = 0; c < kLanes; ++c) any |= found.lane[c] > last.lane[c] ? 1u : 0u;
  return any != 0;
}

}  // namespace

bool find_dl16(const std::byte* stick, unsigned lanes, const StickOrders& last, StickOrders& found) {
  return find<std::uint16_t>(stick, lanes, last, found);
}
bool find_fp32(const std::byte* stick, unsigned lanes, const StickOrders& last, StickOrders& found) {
  return find<std::uint32_t>(stick, lanes, last, found);
}

}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::array {
namespace {

HWY_EXPORT(find_dl16);
HWY_EXPORT(find_fp32);

using wire::array::TopKRequest;
using wire::program::Format;

// In units of about a tenth of a nanosecond: what a request does before it ends. A stick may go beyond it.
constexpr std::uint64_t kMostWork = 300'000;
constexpr std::uint64_t kWorkOfStick = 200;
constexpr std::uint64_t kWorkOfElement = 200;  // to find the place in its list, and one for each merit that moves

// In descending order. Of what lies there before, nothing is expected: a list without order stays within its words.
class MeritList {
 public:
  MeritList() = default;
  MeritList(std::uint64_t* merit, std::uint32_t ranks, std::uint32_t kept)
      : merit_(merit), last_(merit + ranks - 1), end_(merit + kept) {}

  // The order that an element has to exceed; 0: none.
  std::uint32_t order_of_last() const { return end_ > last_ ? wire::array::order_of_merit(*last_) : 0; }
  // The work that it was.
  std::uint64_t include(std::uint64_t merit) {
    std::uint64_t* const end = std::min(end_, last_);  // the last of a full list goes
    std::uint64_t* const at = std::upper_bound(merit_, end, merit, std::greater<>());
    std::copy_backward(at, end, end + 1);
    *at = merit;
    end_ = end + 1;
    return kWorkOfElement + static_cast<std::uint64_t>(end - at);
  }

 private:
  std::uint64_t* merit_ = nullptr;
  std::uint64_t* last_ = nullptr;
  std::uint64_t* end_ = nullptr;  // behind the merits that there are
};

class Rows {
 public:
  explicit Rows(TopKPlan& plan)
      : plan_(plan),
        request_(plan.request),
        kept_(std::min(request_.ranks, request_.first)),
        lanes_(static_cast<Format>(request_.format) == Format::Dl16 ? kMaxLanes : kMaxLanes / 2),
        lines_(request_.across != 0 ? request_.lanes : 1) {}

  // Sticks that are included.
  std::uint64_t run() {
    const auto find = lanes_ == kMaxLanes ? HWY_DYNAMIC_DISPATCH(find_dl16) : HWY_DYNAMIC_DISPATCH(find_fp32);
    std::uint64_t work = 0;
    std::uint64_t done = 0;
    const std::uint64_t end = std::uint64_t{request_.rows} * request_.sticks;
    for (std::uint32_t n = request_.sticks; done < end && work < kMostWork; ++n) {
      if (n == request_.sticks) {
        begin(done / request_.sticks);
        n = 0;
      }
      const bool whole = request_.across == 0 && n + 1 < request_.sticks;
      StickOrders found;
      work += kWorkOfStick;
      if (find(plan_.stick[done++], whole ? lanes_ : request_.lanes, last_, found)) work += include(found, n);
    }
    return done;
  }

 private:
  // The lists of the row.
  void begin(std::uint64_t row) {
    for (std::uint32_t i = 0; i < lines_; ++i) {
      list_[i] = MeritList(&plan_.merit[(row * lines_ + i) * request_.ranks], request_.ranks, kept_);
    }
    keep_last();
  }
  void keep_last() {
    if (request_.across == 0) {
      std::fill_n(last_.lane, lanes_, list_[0].order_of_last());
    } else {
      for (std::uint32_t i = 0; i < lines_; ++i) last_.lane[i] = list_[i].order_of_last();
    }
  }

  // The work that it was.
  std::uint64_t include(const StickOrders& found, std::uint32_t n) {
    std::uint64_t work = 0;
    for (std::uint32_t c = 0; c < lanes_; ++c) {
      MeritList& list = list_[request_.across == 0 ? 0 : c];
      if (found.lane[c] <= last_.lane[c] || found.lane[c] <= list.order_of_last()) continue;
      const std::uint32_t index = request_.first + (request_.across == 0 ? n * lanes_ + c : n);
      work += list.include(wire::array::merit(found.lane[c], index));
    }
    keep_last();
    return work;
  }

  TopKPlan& plan_;
  const TopKRequest& request_;
  std::uint32_t kept_;
  std::uint32_t lanes_;
  std::uint32_t lines_;  // of a row
  MeritList list_[kMaxLanes];
  StickOrders last_{};
};

// The bytes of the n-th stick that belong to the lists; `visit` gets where they lie and where the copy is.
template <typename Visit>
void for_each_stick_of_lists(TopKPlan& plan, Visit visit) {
  const std::uint64_t merits = plan.request.ranks * lines_of(plan.request);
  for (std::size_t n = 0; n * kMeritsInStick < merits; ++n) {
    const std::size_t first = n * kMeritsInStick;
    visit(plan.list[n], &plan.merit[first], std::min(kMeritsInStick, merits - first) * sizeof(std::uint64_t));
  }
}

}  // namespace

// All of the lists is read, whatever they hold: what the copy had before is of another launch.
std::uint64_t execute(TopKPlan& plan) {
  for_each_stick_of_lists(
      plan, [](std::byte* list, std::uint64_t* copy, std::size_t bytes) { std::memcpy(copy, list, bytes); });
  const std::uint64_t done = Rows(plan).run();
  for_each_stick_of_lists(
      plan, [](std::byte* list, std::uint64_t* copy, std::size_t bytes) { std::memcpy(list, copy, bytes); });
  return done;
}

}  // namespace svp::array
#endif
