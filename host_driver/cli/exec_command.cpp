// SPDX-License-Identifier: Apache-2.0
// `spyre exec`: cards for the lifetime of one command.
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "host_driver/broker/broker.hpp"
#include "host_driver/cli/child_process.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/discovery/enumeration.hpp"
#include "host_driver/discovery/runtime_folder.hpp"

namespace cli {

namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// The user's FLEX_DEVICE, else VF when virtual functions were asked for, else PF. A malformed environment is refused
// before anything is booted.
svp::DeviceMode device_mode(const ExecOptions& options) {
  auto variables = svp::EnumerationVariables::from_environment();
  if (!variables.flex_device || variables.flex_device->empty()) {
    variables.flex_device = options.vfs_given && options.shape.virtual_functions != 0 ? "VF" : "PF";
  }
  // Not the user's world: it is replaced.
  variables.world_size.reset();
  return svp::value_or_throw(svp::enumerate(variables, {})).mode;
}

Variables variables_for(const ExecOptions& options, svp::DeviceMode mode, const svp::RuntimeFolder& folder) {
  const unsigned per_card = mode == svp::DeviceMode::Virtual ? options.shape.virtual_functions : 1;
  return {{svp::kRuntimeFolderVariable, folder.path().string()},
          {svp::kFlexDeviceVariable, std::string(svp::name(mode))},
          {svp::kWorldSizeVariable, std::to_string(options.cards * per_card)}};
}

std::unique_ptr<svp::Broker> start_card(const ExecOptions& options, unsigned number, unsigned sharing,
                                        const svp::RuntimeFolder& folder) {
  svp::BrokerOptions broker;
  broker.name = "card" + std::to_string(number);
  broker.card = card_options(options.shape, sharing);
  broker.runtime_folder = folder.path();
  if (options.verbose) {
    broker.on_change = [name = broker.name](std::string_view line) { fmt::print(stderr, "{}: {}\n", name, line); };
  }
  return svp::value_or_throw(svp::Broker::start(std::move(broker)));
}

}  // namespace

int exec(const ExecOptions& options) {
  const SignalDescriptor signals({SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  const svp::DeviceMode mode = device_mode(options);
  const unsigned sharing = count_running_cards() + options.cards;
  // Declared in this order: the cards end first, then their folder goes.
  const auto runtime = svp::value_or_throw(svp::RuntimeFolder::open());
  const auto folder = svp::value_or_throw(runtime.create_private("exec"));
  std::vector<std::unique_ptr<svp::Broker>> cards;
  {
    const Progress progress("booting " + std::to_string(options.cards) + (options.cards == 1 ? " card" : " cards"));
    for (unsigned i = 0; i < options.cards; ++i) cards.push_back(start_card(options, i, sharing, folder));
  }
  int error = 0;
  auto child =
      ChildProcess::start(options.command, variables_for(options, mode, folder), signals.mask_before(), &error);
  if (!child) {
    fmt::print(stderr, "spyre: {}\n", svp::describe(child.error()));
    return error == ENOENT ? kNotFound : kNotExecutable;
  }
  return child->await_end(signals);
}

}  // namespace cli
