// SPDX-License-Identifier: Apache-2.0
// N2: what another function costs on a card that runs: the time to attach it, and the memory of the machine that it
// takes in the emulator and in the driver's process.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/cold_start.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bench/card/tenant_card.hpp"

namespace bench {

namespace {

constexpr unsigned kAttaches = 50;

// Resident pages of a process, shared ones too: pages of a window that both sides have touched count on both.
double resident_bytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", process));
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "Rss:" && file >> kib) return kib * wire::kKiB;
  }
  throw MeasurementError(fmt::format("no resident memory of process {} can be read", process));
}

void run_one(svp::Device& device) { BlockClient(device).run(svp::test::Blocks::nop()); }

double attach_time(svp::Card& card, unsigned vf) {
  const auto start = Clock::now();
  const auto device = value_or_throw(card.open_virtual(vf));
  const double ns = ns_since(start);
  run_one(*device);
  return ns;
}

// The functions of a fresh card, one after the other, each with one job run: the mean.
void measure_memory(const svp::CardOptions& options, Row& emulator, Row& driver) {
  const auto card = value_or_throw(svp::Card::boot(options));
  run_one(*value_or_throw(card->open_virtual(1)));  // what only the first one costs
  const pid_t machine = card->machine().pid();
  const double machine_before = resident_bytes(machine);
  const double driver_before = resident_bytes(::getpid());
  std::vector<std::unique_ptr<svp::Device>> devices;
  for (unsigned vf = 2; vf <= kTenants; ++vf) {
    devices.push_back(value_or_throw(card->open_virtual(vf)));
    run_one(*devices.back());
  }
  const auto count = static_cast<double>(devices.size());
  emulator.ours.push_back((resident_bytes(machine) - machine_before) / count);
  driver.ours.push_back((resident_bytes(::getpid()) - driver_before) / count);
}

}  // namespace

void measure_attach(Session& session) {
  session.end_card();
  const svp::CardOptions options = tenant_card_options(session.options().cores);
  Row attach{.id = "N2", .what = "attach a VF, to DRIVER_OK", .limit = "cold start", .checked = "a job runs"};
  Row emulator{.id = "N2",
               .what = "resident memory of an attached VF, emulator",
               .unit = Unit::Bytes,
               .limit = {},
               .checked = "a job has run"};
  Row driver = emulator;
  driver.what = "resident memory of an attached VF, driver's process";
  const unsigned count = session.amount(kAttaches);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double cold = cold_start(options).first_nop;
    measure_memory(options, emulator, driver);
    const auto card = value_or_throw(svp::Card::boot(options));
    const auto neighbour = value_or_throw(card->open_virtual(1));
    const Apart apart(*card);
    std::vector<double> times(count);
    for (double& ns : times) ns = attach_time(*card, 2);
    attach.add(median(times), cold);
  }
  session.add(std::move(attach));
  session.add(std::move(emulator));
  session.add(std::move(driver));
}

}  // namespace bench
