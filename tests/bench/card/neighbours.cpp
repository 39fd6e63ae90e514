// SPDX-License-Identifier: Apache-2.0
// N1: what a function notices of its neighbours: of those that are attached and do nothing, and of one that floods the
// card. Its times in each round are held against its own without them, in the same round.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/bench/card/flood.hpp"
#include "tests/bench/card/flood_sources.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bench/card/tenant_card.hpp"
#include "tests/bench/card/victim.hpp"

namespace bench {

namespace {

constexpr unsigned kVictim = 1;  // VF
constexpr unsigned kBatch = 2'000;
constexpr unsigned kBatches = 20;
constexpr unsigned kNops = 10'000;
constexpr unsigned kTransfers = 400;
constexpr unsigned kUnderFlood = 300;  // a wait may be as long as a copy of 256 KiB, or a slice
constexpr std::size_t kEnough = 300;   // for a 99th percentile, also in a quick run

std::vector<double> samples_of(Victim& victim, std::size_t count) {
  std::vector<double> times;
  while (times.size() < count) victim.sample(times);
  return times;
}

// Control blocks per second, of the fastest batch.
double nop_rate(BlockClient& client, unsigned batches) {
  double fastest = 0;
  for (unsigned i = 0; i < batches; ++i) {
    const auto start = Clock::now();
    client.run_many(svp::test::Blocks::nop(), kBatch);
    fastest = std::max(fastest, kBatch / ns_since(start) * 1e9);
  }
  return fastest;
}

Row row(std::string what, const char* limit, const char* checked) {
  return {.id = "N1", .what = std::move(what), .limit = limit, .checked = checked};
}

// Median and 99th percentile of one victim.
struct LatencyRows {
  LatencyRows(const std::string& job, const std::string& neighbours, const char* checked)
      : middle(row(job + ", median, " + neighbours, "itself, alone", checked)),
        tail(row(job + ", p99, " + neighbours, "itself, alone", checked)) {}
  void add(const std::vector<double>& disturbed, const std::vector<double>& alone) {
    middle.add(median(disturbed), median(alone));
    tail.add(percentile(disturbed, 0.99), percentile(alone, 0.99));
  }
  Row middle;
  Row tail;
};

// ---- idle -----------------------------------------------------------------------------------------------------------

struct IdleRows {
  explicit IdleRows(unsigned neighbours)
      : count(neighbours),
        nop("empty control block", fmt::format("{} idle neighbours", neighbours), "outcome"),
        transfer("DMA, 1 MiB", fmt::format("{} idle neighbours", neighbours), "every byte"),
        rate(row(fmt::format("empty control blocks, best batch, {} idle neighbours", neighbours), "itself, alone",
                 "outcomes, count")) {
    rate.unit = Unit::PerSecond;
  }
  unsigned count;
  LatencyRows nop;
  LatencyRows transfer;
  Row rate;
};

struct IdleRound {
  std::vector<double> nop;
  std::vector<double> transfer;
  double rate;
};

class IdleBench {
 public:
  IdleBench(Session& session, std::shared_ptr<svp::Card> card)
      : session_(session),
        card_(std::move(card)),
        tenant_(open_tenant(card_, kVictim, Waits::Spinning)),
        nop_(*tenant_),
        transfer_(*tenant_),
        client_(tenant_->device()) {}

  IdleRound measure(unsigned neighbours) {
    std::vector<std::unique_ptr<svp::Device>> idle;  // attached, DRIVER_OK, nothing else
    for (unsigned i = 0; i < neighbours; ++i) idle.push_back(value_or_throw(card_->open_virtual(kVictim + 1 + i)));
    const Apart apart(*card_);
    samples_of(nop_, 1000);  // the newly attached are looked at often until they have been quiet for a while
    return {samples_of(nop_, session_.amount(kNops)),
            samples_of(transfer_, std::max<std::size_t>(kEnough, session_.amount(kTransfers))),
            nop_rate(client_, session_.amount(kBatches))};
  }

 private:
  Session& session_;
  std::shared_ptr<svp::Card> card_;
  std::unique_ptr<svp::Context> tenant_;
  NopVictim nop_;
  TransferVictim transfer_;
  BlockClient client_;
};

// ---- flooding -------------------------------------------------------------------------------------------------------

// Two functions are active, so the victim's fair share of the card is half: a job may take twice its time alone, and a
// noisy neighbour at most twice that.
constexpr double kFourTimes = 4;

void measure_flood(Session& session, const std::shared_ptr<svp::Card>& card, FloodKind kind) {
  const auto tenant = open_tenant(card, kVictim, Waits::Sleeping);
  NopVictim nop(*tenant);
  TransferVictim transfer(*tenant);
  KernelVictim kernel(*tenant);
  BlockClient client(tenant->device());
  Floods floods(*card, kVictim + 1, 1, kind);
  const auto start = [&] { floods.start(); };
  const auto stop = [&] { floods.stop(); };
  const std::string beside = fmt::format("beside a flood of {}", name(kind));

  LatencyRows nops("empty control block", beside, "outcome");
  LatencyRows transfers("DMA, 1 MiB", beside, "every byte");
  LatencyRows kernels("kernel of 2 ms", beside, "every element");
  transfers.tail.goal = kernels.tail.goal = at_most(kFourTimes);
  Row rate = row("empty control blocks, best batch, " + beside, "itself, alone", "outcomes, count");
  rate.unit = Unit::PerSecond;
  const std::size_t count = std::max<std::size_t>(kEnough, session.amount(kUnderFlood));
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const auto add = [&](LatencyRows& rows, Victim& victim) {
      const Compared times = compare(victim, count, start, stop);
      rows.add(times.disturbed, times.alone);
    };
    add(nops, nop);
    add(transfers, transfer);
    add(kernels, kernel);
    const double alone = nop_rate(client, session.amount(kBatches));
    floods.start();
    rate.add(nop_rate(client, session.amount(kBatches)), alone);
    floods.stop();
  }
  (void)floods.ended();  // throws when there was no flood
  for (LatencyRows* rows : {&nops, &transfers, &kernels}) {
    session.add(std::move(rows->middle));
    session.add(std::move(rows->tail));
  }
  session.add(std::move(rate));
}

// A burst of resets is nobody's job and has no share of the card.
constexpr double kInABurst = 1.5;

void measure_reset_burst(Session& session, const std::shared_ptr<svp::Card>& card) {
  const auto tenant = open_tenant(card, kVictim, Waits::Sleeping);
  TransferVictim transfer(*tenant);
  KernelVictim kernel(*tenant);
  Flood burst(make_reset_burst(*card, kVictim + 1));
  LatencyRows transfers("DMA, 1 MiB", "beside a burst of resets", "every byte");
  LatencyRows kernels("kernel of 2 ms", "beside a burst of resets", "every element");
  transfers.tail.goal = kernels.tail.goal = at_most(kInABurst);
  const std::size_t count = std::max<std::size_t>(kEnough, session.amount(kUnderFlood));
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    for (const auto& [rows, victim] : {std::pair<LatencyRows*, Victim*>{&transfers, &transfer}, {&kernels, &kernel}}) {
      const Compared times = compare(*victim, count, [&] { burst.start(); }, [&] { burst.stop(); });
      rows->add(times.disturbed, times.alone);
    }
  }
  require(burst.ended() != 0, "there was no burst of resets");
  for (LatencyRows* rows : {&transfers, &kernels}) {
    session.add(std::move(rows->middle));
    session.add(std::move(rows->tail));
  }
}

std::shared_ptr<svp::Card> boot(Session& session) {
  session.end_card();
  return value_or_throw(svp::Card::boot(tenant_card_options(session.options().cores)));
}

}  // namespace

void measure_idle_neighbours(Session& session) {
  IdleBench bench(session, boot(session));
  std::array rows{IdleRows(3), IdleRows(7)};
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const IdleRound alone = bench.measure(0);
    for (IdleRows& with : rows) {
      const IdleRound now = bench.measure(with.count);
      with.nop.add(now.nop, alone.nop);
      with.transfer.add(now.transfer, alone.transfer);
      with.rate.add(now.rate, alone.rate);
    }
  }
  for (IdleRows& with : rows) {
    for (LatencyRows* latency : {&with.nop, &with.transfer}) {
      session.add(std::move(latency->middle));
      session.add(std::move(latency->tail));
    }
    session.add(std::move(with.rate));
  }
}

void measure_noisy_neighbours(Session& session) {
  const auto card = boot(session);
  const Apart apart(*card);  // the floods' threads stay with the victim's
  for (const FloodKind kind : kFloodKinds) measure_flood(session, card, kind);
  measure_reset_burst(session, card);
}

}  // namespace bench
