// SPDX-License-Identifier: Apache-2.0
#include "host_driver/debug/fatal_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "host_driver/base/mutants.hpp"
#include "shared/admin.hpp"
#include "shared/fault.hpp"
#include "shared/post_codes.hpp"
#include "shared/recorded_states.hpp"
#include "shared/units.hpp"

namespace svp {

namespace {

using wire::FatalRecord;
using wire::HartState;
using wire::RecordedEvent;
using wire::RecordedEventKind;
using wire::RecordedHart;

constexpr std::array kRegisterNames{"zero", "ra", "sp", "gp", "tp",  "t0",  "t1", "t2", "s0", "s1", "a0",
                                    "a1",   "a2", "a3", "a4", "a5",  "a6",  "a7", "s2", "s3", "s4", "s5",
                                    "s6",   "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
static_assert(kRegisterNames.size() == 32);

ErrorInfo no_record(std::string message, std::string next) {
  return {.layer = Layer::Firmware,
          .source = "fatal record",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = std::move(next),
          .message = std::move(message)};
}

std::string_view name(HartState state) {
  switch (state) {
    case HartState::Unknown: return "no answer";
    case HartState::Source: return "source";
    case HartState::Firmware: return "firmware";
    case HartState::Kernel: return "kernel";
    case HartState::Asleep: return "asleep";
    case HartState::Absent: return "absent";
  }
  return "unknown";
}

// mcause of the RISC-V privileged architecture, as far as firmware code can meet it.
std::string_view cause_name(std::uint64_t cause) {
  constexpr std::array kNames{
      "instruction address misaligned", "instruction access fault", "illegal instruction",      "breakpoint",
      "load address misaligned",        "load access fault",        "store address misaligned", "store access fault"};
  return cause < kNames.size() ? kNames[cause] : "unexpected cause";
}

double microseconds(std::uint64_t ticks) { return static_cast<double>(ticks) / wire::kTicksPerMicrosecond; }

std::string place(std::uint64_t address, const ElfImage* image) {
  return image == nullptr ? fmt::format("{:#x}", address) : image->describe(address);
}

bool has_registers(const RecordedHart& hart) {
  return hart.state != HartState::Unknown && hart.state != HartState::Absent;
}

// Oldest first.
std::vector<RecordedEvent> events_of(const FatalRecord& record) {
  std::vector<RecordedEvent> events;
  for (unsigned i = 0; i < wire::kRecordedEvents; ++i) {
    const RecordedEvent& event = record.events[(record.next_event + i) % wire::kRecordedEvents];
    if (event.kind != RecordedEventKind::None) events.push_back(event);
  }
  return events;
}

std::string describe_change(const RecordedEvent& event) {
  const auto change = wire::RecordedChange::unpack(event.a);
  const std::uint64_t function = event.b & ~std::uint32_t{0};
  const std::string whose = change.machine == wire::RecordedMachine::FunctionReset
                                ? fmt::format("reset of function {}", function)
                            : change.machine == wire::RecordedMachine::Stream
                                ? fmt::format("stream {} of function {}", event.b >> 32, function)
                                : std::string("card");
  return fmt::format("{}: {} -> {}", whose, wire::state_name(change.machine, change.from),
                     wire::state_name(change.machine, change.to));
}

std::string describe(const RecordedEvent& event) {
  switch (event.kind) {
    case RecordedEventKind::Post: return std::string(wire::name(static_cast<wire::PostCode>(event.a)));
    case RecordedEventKind::AdminCommand:
      return fmt::format("{} of function {}", wire::name(static_cast<wire::AdminCommand>(event.a)), event.b);
    case RecordedEventKind::StreamPoisoned:
      return fmt::format("stream {} of function {}: {}", event.a, event.b & ~std::uint32_t{0},
                         wire::name(static_cast<wire::Status>(event.b >> 32)));
    case RecordedEventKind::FunctionReset: return fmt::format("function {}, generation {:#x}", event.a, event.b);
    case RecordedEventKind::Launch: return fmt::format("stream {} of function {}", event.a, event.b);
    case RecordedEventKind::Violation:
      return fmt::format("function {}: {}", event.a, wire::name(static_cast<wire::Status>(event.b)));
    case RecordedEventKind::FaultFired:
      return fmt::format("{}: {}", wire::name(static_cast<wire::FaultPoint>(event.a)),
                         wire::name(static_cast<wire::FaultAction>(event.b)));
    case RecordedEventKind::StateChanged: return describe_change(event);
    case RecordedEventKind::None: break;
  }
  return fmt::format("{} {}", event.a, event.b);
}

std::string hart_text(const FatalRecord& record, unsigned number, const ElfImage* image) {
  const RecordedHart& hart = record.harts[number];
  std::string text = fmt::format("hart {:2}: {}, last in \"{}\"", number, name(hart.state), wire::name(hart.waypoint));
  if (!has_registers(hart) || mutated(HostMutant::Report)) return text + "\n";
  const bool kernel = hart.state == HartState::Kernel;
  text += fmt::format("\n         pc {:#x} {}, ra {}\n", hart.pc, kernel ? "(of the kernel)" : place(hart.pc, image),
                      kernel ? fmt::format("{:#x}", hart.x[1]) : place(hart.x[1], image));
  if (hart.cause != wire::kNoCause && !kernel) {
    text += fmt::format("         {} (mcause {:#x}), value {:#x}\n", cause_name(hart.cause), hart.cause, hart.value);
  }
  if (number != record.source) return text;
  for (unsigned n = 1; n < kRegisterNames.size(); ++n) {
    text += fmt::format("{}{:>4} {:016x}", n % 4 == 1 ? "         " : "  ", kRegisterNames[n], hart.x[n]);
    if (n % 4 == 0 || n + 1 == kRegisterNames.size()) text += '\n';
  }
  return text;
}

nlohmann::json hart_json(const FatalRecord& record, unsigned number, const ElfImage* image) {
  const RecordedHart& hart = record.harts[number];
  nlohmann::json json{{"hart", number}, {"state", name(hart.state)}, {"waypoint", wire::name(hart.waypoint)}};
  if (!has_registers(hart)) return json;
  const auto hex = [](std::uint64_t value) { return fmt::format("{:#x}", value); };
  json["pc"] = hex(hart.pc);
  json["mstatus"] = hex(hart.status);
  if (hart.cause != wire::kNoCause) {
    json["mcause"] = hex(hart.cause);
    json["mtval"] = hex(hart.value);
  }
  for (unsigned n = 1; n < kRegisterNames.size(); ++n) json["registers"][kRegisterNames[n]] = hex(hart.x[n]);
  if (image != nullptr && hart.state != HartState::Kernel) {
    json["function"] = image->describe(hart.pc);
    json["caller"] = image->describe(hart.x[1]);
  }
  return json;
}

std::span<const std::byte> build_id_of(const FatalRecord& record) {
  std::span<const std::byte> bytes = std::as_bytes(std::span(record.build_id));
  while (!bytes.empty() && bytes.back() == std::byte{0}) bytes = bytes.first(bytes.size() - 1);
  return bytes;
}

std::string reason_of(const FatalRecord& record) {
  return {record.reason, ::strnlen(record.reason, sizeof record.reason)};
}

}  // namespace

Expected<FatalRecord> parse_record(std::span<const std::byte> bytes) {
  FatalRecord record;
  if (bytes.size() < sizeof record) {
    return std::unexpected(no_record("there is no fatal record", "nothing: no firmware of this card has broken"));
  }
  std::memcpy(&record, bytes.data(), sizeof record);
  if (record.magic != wire::kFatalRecordMagic) {
    return std::unexpected(no_record("there is no fatal record", "nothing: no firmware of this card has broken"));
  }
  if (record.version != wire::kFatalRecordVersion || record.bytes != sizeof record) {
    return std::unexpected(
        no_record(fmt::format("the fatal record is of version {} with {} bytes, known is {} with {}", record.version,
                              record.bytes, wire::kFatalRecordVersion, sizeof record),
                  "read it with the driver that was built with this firmware"));
  }
  if (!is_whole(record) || record.hart_count > wire::kRecordedHarts || record.source >= wire::kRecordedHarts) {
    return std::unexpected(no_record("the fatal record is damaged: its checksum does not match",
                                     "read the PANIC line of the card's console instead"));
  }
  return record;
}

bool same_build(const FatalRecord& record, const ElfImage& image) {
  const auto of_record = build_id_of(record);
  const auto of_image = image.build_id();
  if (of_record.empty() || of_image.empty()) return true;
  return of_image.size() >= of_record.size() && std::equal(of_record.begin(), of_record.end(), of_image.begin());
}

std::string to_text(const FatalRecord& record, const ElfImage* image) {
  std::string text = fmt::format("firmware ended by {}: {}\n", wire::name(record.kind), reason_of(record));
  text += fmt::format("hart {} of {}, boot epoch {}, {:.0f} us after its start, build {}\n", record.source,
                      record.hart_count, record.boot_epoch, microseconds(record.time), hex_digits(build_id_of(record)));
  if (image != nullptr && !same_build(record, *image)) {
    text += fmt::format("ATTENTION: {} is another build ({}): names are wrong\n", image->path().string(),
                        hex_digits(image->build_id()));
  }
  for (unsigned hart = 0; hart < record.hart_count; ++hart) text += hart_text(record, hart, image);
  const auto events = events_of(record);
  if (!events.empty()) text += "last events:\n";
  for (const RecordedEvent& event : events) {
    text += fmt::format("  {:12.1f} us  {}: {}\n", microseconds(event.time), wire::name(event.kind), describe(event));
  }
  return text;
}

nlohmann::json to_json(const FatalRecord& record, const ElfImage* image) {
  nlohmann::json json{{"kind", wire::name(record.kind)},
                      {"reason", reason_of(record)},
                      {"boot_epoch", record.boot_epoch},
                      {"time_us", microseconds(record.time)},
                      {"source", record.source},
                      {"hart_count", record.hart_count},
                      {"build_id", hex_digits(build_id_of(record))},
                      {"waiting_for", nlohmann::json::array()},
                      {"harts", nlohmann::json::array()},
                      {"events", nlohmann::json::array()}};
  if (image != nullptr) json["same_build"] = same_build(record, *image);
  for (unsigned hart = 0; hart < record.hart_count; ++hart) {
    if ((record.waiting_for >> hart & 1) != 0) json["waiting_for"].push_back(hart);
    json["harts"].push_back(hart_json(record, hart, image));
  }
  for (const RecordedEvent& event : events_of(record)) {
    json["events"].push_back({{"time_us", microseconds(event.time)},
                              {"kind", wire::name(event.kind)},
                              {"a", event.a},
                              {"b", event.b},
                              {"text", describe(event)}});
  }
  return json;
}

}  // namespace svp
