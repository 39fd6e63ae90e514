// SPDX-License-Identifier: Apache-2.0
// P9: from nothing to the first completed job, against the same emulator command line with a firmware that only exits.
#include "tests/bench/card/cold_start.hpp"

#include <cstring>

#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bounds.hpp"

namespace bench {

namespace {

constexpr unsigned kMinimumBoots = 7;
constexpr std::uint64_t kFirstBytes = wire::kMiB;

double exit_only(qemu::MachineOptions options) {
  options.firmware = SPYRE_EXIT_FIRMWARE;
  options.array.clear();
  const auto start = Clock::now();
  auto machine = qemu::Machine::start(options);
  require(machine.has_value(), "the emulator did not start with the firmware that only exits");
  const auto status = machine->wait_exit(bench_bounds::kBlock);
  const double ns = ns_since(start);
  require(status.has_value() && qemu::to_string(*status) == "exit code 0",
          "the firmware that only exits did not exit well");
  return ns;
}

}  // namespace

ColdStart cold_start(const svp::CardOptions& options) {
  ColdStart result;
  const auto start = Clock::now();
  const auto card = value_or_throw(svp::Card::boot(options));
  const auto device = value_or_throw(card->open_physical());
  BlockClient client(*device);
  client.run(svp::test::Blocks::nop());
  result.first_nop = ns_since(start);

  // The first transfer needs memory at both ends.
  svp::HostMemory host(device->host_memory(), device->host_memory_offset(), device->mapping());
  svp::FlexAllocator allocator(device->region_source());
  const auto place = allocator.resolve(allocator.allocate(kFirstBytes));
  const auto out = host.allocate(kFirstBytes);
  std::memset(out.data(), 0x5A, kFirstBytes);
  client.run(to_device_block(out, place, kFirstBytes));
  result.first_transfer = ns_since(start);
  const auto back = host.allocate(kFirstBytes);
  client.run(from_device_block(place, back, kFirstBytes));
  require(std::memcmp(out.data(), back.data(), kFirstBytes) == 0, "the first transfer came back changed");
  result.machine = card->machine().options();
  return result;
}

void measure_cold_start(Session& session) {
  session.end_card();
  svp::CardOptions options;
  options.cores = session.options().cores;
  Row nop{.id = "P9",
          .what = "cold start to the first completed job (NOP)",
          .limit = "same emulator, firmware only exits",
          .goal = at_most(2.5),
          .checked = "outcome"};
  Row transfer{.id = "P9",
               .what = "cold start to the first transfer (region acquired, 1 MiB)",
               .limit = "same emulator, firmware only exits",
               .goal = at_most(2.5),
               .checked = "every byte, read back"};
  cold_start(options);  // files of the emulator in memory
  for (unsigned boot = 0; boot < std::max(kMinimumBoots, session.options().rounds); ++boot) {
    const ColdStart ours = cold_start(options);
    const double limit = exit_only(ours.machine);
    nop.add(ours.first_nop, limit);
    transfer.add(ours.first_transfer, limit);
  }
  session.add(std::move(nop));
  session.add(std::move(transfer));
}

}  // namespace bench
