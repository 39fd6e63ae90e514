// SPDX-License-Identifier: Apache-2.0
// P10, second reset level: a function that has 16 MiB dirty is reset, by its owner (detach and attach: status 0 and
// bring-up) or by M (FUNCTION_RESET, then the owner attaches again), until its first good job. Against a cold start of
// the same card.
#include <algorithm>

#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/cold_start.hpp"
#include "tests/bench/card/management.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bench/card/tenant_card.hpp"

namespace bench {

namespace {

constexpr unsigned kResets = 20;
constexpr std::uint64_t kDirtyBytes = 16 * wire::kMiB;
constexpr unsigned kVictim = 1;  // VF

// The next owner finds nothing of what `dirty` wrote.
void check_clean(svp::Device& device, Management& management) {
  management.wait_scrubbed();  // the pool hands out its lowest free memory: the same again
  DirtyRegion region(device, kDirtyBytes);
  region.require_zero(kDirtyBytes);
}

class FunctionResets {
 public:
  FunctionResets(svp::Card& card, Management& management)
      : card_(card), management_(management), device_(value_or_throw(card.open_virtual(kVictim))) {}

  double by_owner() {
    return measured([&] { device_.reset(); });
  }
  double by_management() {
    const std::uint64_t before = management_.query(wire::target_of_virtual(kVictim)).resets;
    const double ns = measured([&] {
      management_.reset(wire::target_of_virtual(kVictim));
      device_.reset();
    });
    require(management_.query(wire::target_of_virtual(kVictim)).resets > before, "the card counted no function reset");
    return ns;
  }

 private:
  template <typename Reset>
  double measured(Reset reset) {
    DirtyRegion(*device_, kDirtyBytes).dirty(kDirtyBytes);  // the reset takes the region back, nobody else
    const auto start = Clock::now();
    reset();
    device_ = value_or_throw(card_.open_virtual(kVictim));
    double ns = 0;
    {
      BlockClient client(*device_);
      client.run(svp::test::Blocks::nop());
      ns = ns_since(start);
    }
    check_clean(*device_, management_);
    return ns;
  }

  svp::Card& card_;
  Management& management_;
  std::unique_ptr<svp::Device> device_;
};

}  // namespace

void measure_function_reset(Session& session) {
  session.end_card();
  const svp::CardOptions options = tenant_card_options(session.options().cores);
  std::vector<double> cold;
  for (unsigned round = 0; round < session.options().rounds; ++round) cold.push_back(cold_start(options).first_nop);
  const auto card = value_or_throw(svp::Card::boot(options));
  Management management(*card);
  FunctionResets resets(*card, management);

  Row owner{.id = "P10",
            .what = "function reset by its owner to the first good job, 16 MiB dirty",
            .limit = "cold start",
            .goal = at_most(0.1),
            .checked = "the next owner reads zeros"};
  Row management_row = owner;
  management_row.what = "function reset by M to the first good job, 16 MiB dirty";
  const unsigned count = session.amount(kResets);
  const Apart apart(*card);
  resets.by_owner();
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    std::vector<double> times(count);
    for (double& ns : times) ns = resets.by_owner();
    owner.add(median(times), cold[round]);
    for (double& ns : times) ns = resets.by_management();
    management_row.add(median(times), cold[round]);
  }
  session.add(std::move(owner));
  session.add(std::move(management_row));
}

}  // namespace bench
