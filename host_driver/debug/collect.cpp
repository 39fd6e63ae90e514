// SPDX-License-Identifier: Apache-2.0
#include "host_driver/debug/collect.hpp"

#include <elf.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/debug/fatal_report.hpp"
#include "host_driver/debug/register_dump.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/window.hpp"

namespace svp {

namespace {

constexpr unsigned kManagementSlot = 0;

ErrorInfo from_machine(const qemu::MachineError& error) {
  return {.layer = Layer::Emulator,
          .source = std::string(qemu::to_string(error.kind)),
          .outcome = wire::Outcome::Rejected,
          .recoverable = error.kind == qemu::MachineError::Kind::kTimeout,
          .next_step = error.next_step,
          .message = error.message};
}

Expected<wire::FatalRecord> record_in_window(Card& card) {
  auto slot = card.slot(kManagementSlot);
  if (!slot) return std::unexpected(std::move(slot.error()));
  const auto window = Window::map(slot->window_fd(), slot->window_bytes());
  if (!window) return std::unexpected(window.error());
  const wire::Block block = wire::kFatalRecord;
  return parse_record((*window)->bytes().subspan(block.offset, block.bytes));
}

// Lets harts that ran go on, whatever happens between.
class Pause {
 public:
  static Expected<Pause> begin(qemu::Machine& machine) {
    const auto status = machine.execute("query-status", {});
    if (!status) return std::unexpected(from_machine(status.error()));
    const bool ran = status->value("running", false);
    if (ran) {
      if (const auto stopped = machine.stop(); !stopped) return std::unexpected(from_machine(stopped.error()));
    }
    return Pause(ran ? &machine : nullptr);
  }
  Pause(Pause&& other) noexcept : machine_(std::exchange(other.machine_, nullptr)) {}
  Pause& operator=(Pause&&) = delete;
  ~Pause() {
    if (machine_ != nullptr) (void)machine_->cont();
  }

 private:
  explicit Pause(qemu::Machine* machine) : machine_(machine) {}
  qemu::Machine* machine_;
};

// The image with its variables, and every stack: what back traces and `print` need.
struct Range {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t flags;
};
std::vector<Range> ranges_of(const ElfImage& image, std::size_t harts) {
  std::vector<Range> ranges;
  for (const ElfImage::Segment& segment : image.segments()) {
    ranges.push_back({segment.address, segment.memory_bytes, segment.flags});
  }
  const auto add = [&](std::string_view begin_name, std::string_view end_name) {
    const auto begin = image.address_of(begin_name);
    const auto end = image.address_of(end_name);
    if (!begin || !end || *end <= *begin) return;
    const std::uint64_t each = (*end - *begin) / wire::kRecordedHarts;
    ranges.push_back({*begin, each * harts, PF_R | PF_W});
  };
  add("__stacks_begin", "__stacks_end");
  add("__panic_stacks_begin", "__panic_stacks_end");
  return ranges;
}

}  // namespace

Expected<wire::FatalRecord> collect_record(Card& card) {
  const auto memory = card.machine().read_memory(wire::kFatalRecordAddress, sizeof(wire::FatalRecord));
  if (!memory) {
    auto shown = record_in_window(card);
    if (shown) return shown;
    return std::unexpected(from_machine(memory.error()));
  }
  return parse_record(*memory);
}

Expected<CoreFile> collect_snapshot(Card& card, const ElfImage& image) {
  qemu::Machine& machine = card.machine();
  const auto pause = Pause::begin(machine);
  if (!pause) return std::unexpected(pause.error());
  const auto text = machine.monitor("info registers -a");
  if (!text) return std::unexpected(from_machine(text.error()));
  CoreFile core;
  core.harts = parse_register_dump(*text);
  for (auto& hart : core.harts) {
    if (mutated(HostMutant::Snapshot)) hart.pc = 0;
  }
  if (core.harts.empty()) {
    return std::unexpected(ErrorInfo{.layer = Layer::Emulator,
                                     .source = "info registers",
                                     .outcome = wire::Outcome::Rejected,
                                     .recoverable = false,
                                     .next_step = "check the emulator's version; attach a debugger instead",
                                     .message = "the emulator's dump of registers is of an unknown form"});
  }
  for (const Range& range : ranges_of(image, core.harts.size())) {
    auto bytes = machine.read_memory(range.address, range.bytes);
    if (!bytes) return std::unexpected(from_machine(bytes.error()));
    core.memory.push_back({range.address, *std::move(bytes), range.flags});
  }
  if (auto record = collect_record(card)) core.record = *std::move(record);
  return core;
}

Expected<CoreWas> collect_core(Card& card, CoreOf what, const std::filesystem::path& file) {
  const auto image = ElfImage::open(card.options().firmware);
  if (!image) return std::unexpected(image.error());
  if (what == CoreOf::RecordOrNow) {
    if (const auto record = collect_record(card)) {
      if (auto written = write_core(core_of(*record, *image), file); !written) return std::unexpected(written.error());
      return CoreWas::Record;
    }
  }
  const auto snapshot = collect_snapshot(card, *image);
  if (!snapshot) return std::unexpected(snapshot.error());
  if (auto written = write_core(*snapshot, file); !written) return std::unexpected(written.error());
  return CoreWas::Now;
}

}  // namespace svp
