// SPDX-License-Identifier: Apache-2.0
//
// A process that serves a long-lived card until SIGTERM or until a client stops it. It prints "emulator <pid>" when the
// card is ready.
//
//   card_process <runtime folder> <name>
#include <fmt/format.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/broker/broker.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  const svp::UniqueFd signals{signalfd(-1, &end, SFD_CLOEXEC)};
  svp::BrokerOptions options;
  options.name = argv[2];
  options.runtime_folder = argv[1];
  options.card.cores = 2;
  auto broker = svp::Broker::start(std::move(options));
  if (!broker) {
    fmt::print("error {}\n", svp::describe(broker.error()));
    return 3;
  }
  fmt::print("emulator {}\n", (*broker)->description().emulator);
  std::fflush(stdout);
  (*broker)->run_until(signals.get());
  (*broker)->stop();
  return 0;
}
