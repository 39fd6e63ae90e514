// SPDX-License-Identifier: Apache-2.0
// N3: owners that come and go on a long-lived card. Each attaches to the same function through the broker, runs a job
// and goes; its window is unplugged behind it, and the next one has a fresh window and a fresh peer.
#include <algorithm>
#include <thread>

#include "host_driver/broker/broker.hpp"
#include "host_driver/discovery/attach.hpp"
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bounds.hpp"

namespace bench {

namespace {

constexpr unsigned kOwners = 200;
constexpr double kAttachBound = 1e6;  // ns

class LongLivedCard {
 public:
  explicit LongLivedCard(unsigned cores)
      : folder_(value_or_throw(value_or_throw(svp::RuntimeFolder::open()).create_private("bench"))) {
    svp::BrokerOptions options;
    options.name = "owners";
    options.card.cores = cores;
    options.runtime_folder = folder_.path();
    broker_ = value_or_throw(svp::Broker::start(std::move(options)));
  }
  ~LongLivedCard() { broker_->stop(); }
  LongLivedCard(const LongLivedCard&) = delete;
  LongLivedCard& operator=(const LongLivedCard&) = delete;

  // How long the attach took: the broker's answer, and bring-up to DRIVER_OK.
  double one_owner() {
    const auto start = Clock::now();
    const auto owned =
        value_or_throw(svp::attach(broker_->folder().string(), svp::FunctionChoice::virtual_function(1)));
    const double ns = ns_since(start);
    BlockClient(*owned.device).run(svp::test::Blocks::nop());
    return ns;
  }

 private:
  svp::RuntimeFolder folder_;
  std::unique_ptr<svp::Broker> broker_;
};

}  // namespace

void measure_owners(Session& session) {
  session.end_card();
  Row paced{.id = "N3",
            .what = "attach while owners change at 50/s, median",
            .limit = "1 ms",
            .goal = at_most(1),
            .checked = "a job runs"};
  Row slowest = paced;
  slowest.what = "the same, 90th percentile";
  slowest.goal = {};
  Row fastest{.id = "N3",
              .what = "owners of one function, one behind the other",
              .unit = Unit::PerSecond,
              .limit = "50/s",
              .goal = at_least(1),
              .checked = "a job runs"};
  const unsigned count = session.amount(kOwners);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    LongLivedCard card(session.options().cores);
    for (int first = 0; first < 5; ++first) (void)card.one_owner();
    std::vector<double> times(count);
    auto next = Clock::now();
    for (double& ns : times) {
      std::this_thread::sleep_until(next += bench_bounds::kOwnerEvery);  // bounded: the rate that is measured
      ns = card.one_owner();
    }
    std::ranges::sort(times);
    paced.add(median(times), kAttachBound);
    slowest.add(times[times.size() * 9 / 10], kAttachBound);
    const auto start = Clock::now();
    for (unsigned owner = 0; owner < count; ++owner) (void)card.one_owner();
    fastest.add(count / (ns_since(start) * 1e-9), 50);
  }
  session.add(std::move(paced));
  session.add(std::move(slowest));
  session.add(std::move(fastest));
}

}  // namespace bench
