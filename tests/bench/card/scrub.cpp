// SPDX-License-Identifier: Apache-2.0
// P10: how fast released memory becomes clean, against the card's own copy speed, and that it costs what was touched,
// not what was held. From the release (or the reset) until M is told of no dirty memory any more.
#include <algorithm>

#include "tests/bench/card/management.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bench/card/tenant_card.hpp"

namespace bench {

namespace {

constexpr std::uint64_t kRegionBytes = wire::kGiB;
constexpr std::uint64_t kCopyBytes = 64 * wire::kMiB;
constexpr std::uint64_t kMostTouched = 128 * wire::kMiB;
constexpr unsigned kRepetitions = 5;
constexpr unsigned kTenant = 1;  // VF

class ScrubBench {
 public:
  ScrubBench(svp::Card& card, Management& management)
      : card_(card), management_(management), device_(value_or_throw(card.open_virtual(kTenant))) {}

  // Nanoseconds.
  double after_release(std::uint64_t touched, std::uint64_t held) {
    DirtyRegion region(*device_, held);
    region.dirty(touched);
    const auto start = Clock::now();
    region.release();
    management_.wait_scrubbed();
    const double ns = ns_since(start);
    check(touched);
    return ns;
  }
  double after_reset(std::uint64_t touched) {
    DirtyRegion(*device_, kRegionBytes).dirty(touched);
    const auto start = Clock::now();
    management_.reset(wire::target_of_virtual(kTenant));
    management_.wait_scrubbed();
    const double ns = ns_since(start);
    device_.reset();
    device_ = value_or_throw(card_.open_virtual(kTenant));
    check(touched);
    return ns;
  }
  double copy() {
    DirtyRegion region(*device_, 2 * kCopyBytes);
    region.dirty(2 * kCopyBytes);
    const double ns = region.copy(kCopyBytes);
    region.release();
    management_.wait_scrubbed();
    return ns;
  }

 private:
  void check(std::uint64_t touched) {
    DirtyRegion again(*device_, touched);
    again.require_zero(touched);
    again.release();
    management_.wait_scrubbed();
  }

  svp::Card& card_;
  Management& management_;
  std::unique_ptr<svp::Device> device_;
};

double rate(std::uint64_t bytes, double ns) { return static_cast<double>(bytes) / ns * 1e9; }

template <typename Once>
double median_of(unsigned count, Once once) {
  std::vector<double> times(count);
  for (double& ns : times) ns = once();
  return median(std::move(times));
}

}  // namespace

void measure_scrub(Session& session) {
  session.end_card();
  const auto card = value_or_throw(svp::Card::boot(tenant_card_options(session.options().cores)));
  Management management(*card);
  ScrubBench bench(*card, management);
  const unsigned count = session.amount(kRepetitions);

  Row released{.id = "P10",
               .what = "scrub of a released region, 128 MiB touched of 1 GiB",
               .unit = Unit::BytesPerSecond,
               .limit = "copy on the card, 64 MiB",
               .goal = at_least(0.3),
               .checked = "the next owner reads zeros"};
  Row reset = released;
  reset.what = "scrub after a function reset by M, 128 MiB touched of 1 GiB";
  Row small{.id = "P10",
            .what = "scrub time, 16 MiB touched of 1 GiB",
            .limit = "8 times that of 2 MiB",
            .goal = at_most(1.5),
            .checked = "the next owner reads zeros"};
  Row large = small;
  large.what = "scrub time, 128 MiB touched of 1 GiB";
  large.limit = "64 times that of 2 MiB";
  Row held = small;
  held.what = "scrub time, 2 MiB touched of 1 GiB";
  held.limit = "2 MiB touched of 2 MiB";
  const Apart apart(*card);
  const auto touched = [&](std::uint64_t bytes, std::uint64_t of) {
    return median_of(count, [&] { return bench.after_release(bytes, of); });
  };
  bench.after_release(kMostTouched, kRegionBytes);  // populated
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double copy = rate(kCopyBytes, median_of(count, [&] { return bench.copy(); }));
    const double two = touched(2 * wire::kMiB, kRegionBytes);
    const double most = touched(kMostTouched, kRegionBytes);
    released.add(rate(kMostTouched, most), copy);
    reset.add(rate(kMostTouched, median_of(count, [&] { return bench.after_reset(kMostTouched); })), copy);
    small.add(touched(16 * wire::kMiB, kRegionBytes), 8 * two);
    large.add(most, 64 * two);
    held.add(two, touched(2 * wire::kMiB, 2 * wire::kMiB));
  }
  for (Row* row : {&released, &reset, &small, &large, &held}) session.add(std::move(*row));
}

}  // namespace bench
