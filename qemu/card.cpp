// SPDX-License-Identifier: Apache-2.0
#include "qemu/card.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/ras/log.hpp"
#include "host_driver/transport/guarded.hpp"
#include "qemu/card_impl.hpp"
#include "qemu/machine_error.hpp"
#include "qemu/memory_budget.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/post_codes.hpp"

namespace svp {

ErrorInfo from_machine(const qemu::MachineError& error) {
  return {.layer = Layer::Emulator,
          .source = std::string(qemu::to_string(error.kind)),
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = error.next_step,
          .message = error.message};
}

namespace {

// The card takes the last of several words of one name, so the caller's own come behind these.
std::string boot_words(const CardOptions& options) {
  const auto word = [](std::string_view name, std::uint64_t value) {
    return std::string(name) + "=" + std::to_string(value);
  };
  std::string words = word(wire::boot::kVirtualFunctions, options.virtual_functions);
  if (const std::uint64_t mib = options.populated_budget_bytes / wire::kMiB; mib != 0) {
    words += " " + word(wire::boot::kMemoryBudgetMiB, mib);
  }
  if (options.sole_function) words += " " + word(wire::boot::kSoleFunction, *options.sole_function + 1);
  return words;
}

std::string debugger_endpoint(const EmulatorOptions& emulator) {
  const char* endpoint = std::getenv("SPYRE_GDB");
  return emulator.gdb_endpoint.empty() && endpoint != nullptr ? endpoint : emulator.gdb_endpoint;
}

struct Debugger {
  std::string endpoint;
  bool lets_go = false;  // the first instruction waits for its "continue"
};

// "wait=on" is ours: the emulator takes it for a UNIX socket only, and then answers nobody until the debugger is there.
Debugger debugger_of(const std::string& given) {
  Debugger debugger;
  const bool is_unix = given.starts_with("unix:");
  bool wait = is_unix && given.contains("server=on");  // the emulator's default
  for (std::size_t at = 0; at <= given.size() && !given.empty();) {
    const std::size_t comma = std::min(given.find(',', at), given.size());
    const std::string word = given.substr(at, comma - at);
    at = comma + 1;
    if (word == "wait" || word == "wait=on") {
      wait = true;
    } else if (word == "wait=off" || word == "nowait") {
      wait = false;
    } else {
      debugger.endpoint += (debugger.endpoint.empty() ? "" : ",") + word;
    }
  }
  if (is_unix) debugger.endpoint += ",wait=off";
  debugger.lets_go = wait;
  return debugger;
}

// Before each POST code.
constexpr std::string_view kPostMark = "post 0x";

std::uint64_t post_codes_in(const std::string& console) {
  std::uint64_t codes = 0;
  for (std::size_t at = console.find(kPostMark); at != std::string::npos; at = console.find(kPostMark, at + 1)) ++codes;
  return codes;
}

// A whole line of the console, the last one that contains `mark`; empty when there is none.
std::string last_line_with(std::string_view console, std::string_view mark) {
  const std::size_t at = console.rfind(mark);
  if (at == std::string_view::npos) return {};
  const std::size_t before = console.rfind('\n', at);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view line = console.substr(begin, console.find_first_of("\r\n", at) - begin);
  return std::string(line);
}

// A PANIC line without the registers behind its reason: those are addresses of the firmware, for the console only.
std::string without_registers(std::string reason) {
  reason.resize(std::min({reason.size(), reason.find(", cause "), reason.find(", pc ")}));
  return reason;
}

// Why the firmware has restarted itself last. Empty: it was told to, or the line has not come yet.
std::string why_restarted(const std::string& console) {
  const std::string reason = last_line_with(console, "PANIC");
  if (reason.empty()) return {};
  const std::string since = console.substr(console.rfind(reason));
  const std::string ready(wire::name(wire::PostCode::Ready));
  const std::size_t boot = since.find(ready);
  const bool earlier = boot != std::string::npos && since.find(ready, boot + 1) != std::string::npos;
  return earlier ? std::string() : without_registers(reason);
}

// A boot that ends before the function's window exists can tell its POST code and its reason by the console only.
ErrorInfo with_console(ErrorInfo error, const qemu::Machine& machine) {
  // A doorbell that hung up is the first sign of a death; the console is complete when the exit is known.
  if (error.outcome == wire::Outcome::Lost) (void)machine.wait_exit(kExitIsKnown);
  const std::string console = machine.console();
  const std::string post = last_line_with(console, kPostMark);
  const std::string reason = last_line_with(console, "PANIC");
  // What stands before a boot that ended well is an earlier boot's.
  const auto place = [&](const std::string& line) { return line.empty() ? 0 : console.rfind(line) + 1; };
  if (post.ends_with(wire::name(wire::PostCode::Ready)) && place(post) > place(reason)) return error;
  if (!post.empty()) error.message += "; the card's console ends with \"" + post + "\"";
  if (reason.empty() || place(reason) < place(post)) return error;
  error.message += ", \"" + without_registers(reason) + "\"";
  return error;
}

// The emulator's words, when it can not load a plugin or does not know what one is.
bool is_about_plugin(const qemu::MachineError& error) { return error.message.contains("plugin"); }

ErrorInfo reported(const qemu::MachineError& error, const CardOptions& options) {
  ErrorInfo info = from_machine(error);
  if (!options.array.empty() && is_about_plugin(error)) {
    info.next_step = "boot the card without the compute array: --array off, SPYRE_ARRAY=off";
  }
  ras::report(info, {.device = options.name, .function = {}, .stream = {}, .launch = {}});
  return info;
}

// An emulator that can not load the array ends at once. Unless the array was named, the card is then started without.
Expected<qemu::Machine> start_machine(CardOptions& options, const FoundArray& array) {
  auto started = qemu::Machine::start(machine_for(options));
  if (!started && !options.array.empty() && !array.named && is_about_plugin(started.error())) {
    reported(started.error(), options);
    options.array.clear();
    started = qemu::Machine::start(machine_for(options));
  }
  if (!started) return std::unexpected(reported(started.error(), options));
  return *std::move(started);
}

}  // namespace

qemu::MachineOptions machine_for(const CardOptions& options) {
  const EmulatorOptions& emulator = options.emulator;
  qemu::MachineOptions machine;
  machine.emulator = emulator.program;
  machine.console_file = emulator.console_file;
  const Debugger debugger = debugger_of(emulator.gdb_endpoint);
  machine.gdb_endpoint = debugger.endpoint;
  machine.extra_arguments = emulator.extra_arguments;
  machine.start_paused = emulator.start_paused || debugger.lets_go;
  machine.first_renewed_peer = emulator.first_renewed_peer;
  if (emulator.on_exit) {
    machine.on_exit = [told = emulator.on_exit](const qemu::ExitStatus& status) { told(qemu::to_string(status)); };
  }
  machine.firmware = options.firmware;
  machine.array = options.array;
  machine.harts = options.cores;
  machine.memory_bytes = options.memory_bytes;
  machine.slots.assign(2 + options.virtual_functions + options.spare_slots, {options.window_bytes});
  machine.ports = options.ports;
  machine.boot_arguments = boot_words(options);
  if (!options.boot_arguments.empty()) machine.boot_arguments += " " + options.boot_arguments;
  return machine;
}

Expected<std::unique_ptr<Card>> Card::boot(CardOptions options) {
  if (options.virtual_functions > wire::boot::kMaxVirtualFunctions) {
    return std::unexpected(refused_by_driver("virtual_functions",
                                             std::to_string(options.virtual_functions) + " virtual functions",
                                             "ask for at most " + std::to_string(wire::boot::kMaxVirtualFunctions)));
  }
  if (options.sole_function.value_or(0) > options.virtual_functions) {
    return std::unexpected(refused_by_driver("sole_function", "VF " + std::to_string(*options.sole_function),
                                             "name a function that the card has"));
  }
  if (options.memory_bytes < kLeastMemoryBytes) {
    return std::unexpected(refused_by_driver("memory_bytes",
                                             std::to_string(options.memory_bytes) + " bytes are too little for a card",
                                             "give at least 2050 MiB: 2 GiB are the firmware's own"));
  }
  if (options.firmware.empty()) {
    auto found = find_firmware();
    if (!found) return std::unexpected(std::move(found.error()));
    options.firmware = *std::move(found);
  }
  auto array = find_array(options.array);
  if (!array) return std::unexpected(std::move(array.error()));
  options.array = array->plugin;
  if (options.cores == 0) options.cores = std::clamp(std::thread::hardware_concurrency(), 1u, 2u);

  auto impl = std::make_unique<Impl>(options.timeouts);
  auto loop = EventLoop::create();
  if (!loop) return std::unexpected(std::move(loop.error()));
  impl->loop = *std::move(loop);

  if (options.populated_budget_bytes == 0) options.populated_budget_bytes = default_populated_budget();
  options.emulator.gdb_endpoint = debugger_endpoint(options.emulator);
  auto started = start_machine(options, *array);
  if (!started) return std::unexpected(std::move(started.error()));
  impl->machine = std::make_shared<qemu::Machine>(*std::move(started));
  impl->options = std::move(options);
  return std::unique_ptr<Card>(new Card(std::move(impl)));
}

Card::Card(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Card::~Card() {
  if (!impl_->process.is_this()) keep_for_ever(std::shared_ptr<Impl>(std::move(impl_)));
}

Expected<std::unique_ptr<Device>> Card::Impl::open(unsigned slot, std::string source, OpenOptions how) {
  if (auto ours = require_own_process(); !ours) return std::unexpected(std::move(ours.error()));
  const FaultHooks hooks = how.faults;
  return guarded("opening " + source, [&] {
    const DriverCall call(hooks.injector.get(), slot);
    return open_now(slot, source, std::move(how));
  });
}

Expected<std::unique_ptr<Device>> Card::Impl::open_now(unsigned slot, const std::string& source, OpenOptions how) {
  std::shared_ptr<const void> token;
  std::shared_ptr<qemu::Machine> of;
  {
    const std::lock_guard lock(mutex);
    if (deaths.wedged()) return std::unexpected(wedged_error("the card", deaths));
    of = machine;
    if (!owners[slot].reached()) {
      return std::unexpected(
          refused_by_driver(source, source + " is open already", "close the device that holds it first"));
    }
    token = owners[slot].begin();
  }
  auto handle = of->slot(slot);
  if (!handle) return std::unexpected(from_machine(handle.error()));
  auto exit_fd = of->exit_fd();
  if (!exit_fd) return std::unexpected(from_machine(exit_fd.error()));
  DeviceOptions device;
  device.exit_fd = *std::move(exit_fd);
  // The descriptor tells that the card ended; how, the machine's watch knows a moment later.
  const auto bound = std::chrono::ceil<std::chrono::milliseconds>(options.timeouts.death_report);
  // Exists as long as the device: it holds the function, and the machine.
  device.how_card_ended = [token, kept = of, bound] {
    const auto status = kept->wait_exit(bound);
    return status ? qemu::to_string(*status) : std::string();
  };
  device.why_card_restarted = [kept = of] { return why_restarted(kept->console()); };
  device.boot_codes_shown = [kept = of] { return post_codes_in(kept->console()); };
  device.restartable = true;
  device.held_by_debugger = [kept = of] { return kept->held_by_debugger(); };
  device.card_name = options.name;
  device.loop = loop;
  device.optional_features = how.optional_features;
  device.polled = how.polled;
  device.records_death = how.records_death;
  device.timeouts = options.timeouts;
  device.faults = std::move(how.faults);
  device.faults.function = slot;  // slots of an embedded card: M, PF, VF 1 …, as the numbers of wire::Target
  auto attached = Device::attach(*std::move(handle), std::move(device));
  if (!attached) return std::unexpected(with_console(std::move(attached.error()), *of));
  return attached;
}

Expected<std::unique_ptr<Device>> Card::open_physical(OpenOptions how) {
  return impl_->open(kPhysicalSlot, "PF", std::move(how));
}

Expected<std::unique_ptr<Device>> Card::open_virtual(unsigned number, OpenOptions how) {
  const std::string source = "VF " + std::to_string(number);
  if (number == 0 || number > impl_->options.virtual_functions) {
    return std::unexpected(refused_by_driver(
        source, "this card has virtual functions 1 to " + std::to_string(impl_->options.virtual_functions),
        "boot it with more, or open one that exists"));
  }
  return impl_->open(kPhysicalSlot + number, source, std::move(how));
}

Expected<std::unique_ptr<Device>> Card::open_management(OpenOptions how) {
  return impl_->open(kManagementSlot, "M", std::move(how));
}

Expected<SlotHandle> Card::slot(unsigned index) const {
  if (auto ours = impl_->require_own_process(); !ours) return std::unexpected(std::move(ours.error()));
  auto handle = impl_->current()->slot(index);
  if (!handle) return std::unexpected(from_machine(handle.error()));
  return *std::move(handle);
}

const CardOptions& Card::options() const { return impl_->options; }
qemu::Machine& Card::machine() { return *impl_->current(); }

Expected<void> Card::shutdown() {
  if (auto ours = impl_->require_own_process(); !ours) return ours;
  if (auto killed = impl_->current()->kill(); !killed) return std::unexpected(from_machine(killed.error()));
  return {};
}

}  // namespace svp
