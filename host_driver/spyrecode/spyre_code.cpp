// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/spyre_code.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "host_driver/base/strict_json.hpp"

namespace svp::spyrecode {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kPreparation = "JobPreparationPlan";
constexpr const char* kExecution = "JobExecPlan";
constexpr const char* kWriteAgain = "correct the file, or write the directory again (spyre spyrecode make)";

[[noreturn]] void refuse_member(const std::string& path, const std::string& what) {
  const std::string message = path.empty() ? std::string(kFileName) + " " : std::string(kFileName) + ": " + path + " ";
  throw InvalidPlan(path.empty() ? kFileName : path, message + what, kWriteAgain);
}

// One entry of a list: its command, and where its properties stand.
struct Entry {
  std::string path;  // "JobExecPlan[2]"
  std::string command;
  const json* properties;

  StrictObject object() const { return {*properties, path + ".properties"}; }
};

Entry read_entry(const json& value, std::string path) {
  StrictObject object(value, path);
  std::string command = object.text("command", kMostNameBytes);
  const json& properties = object.member("properties");
  if (!properties.is_object()) object.refuse("properties", "is not an object");
  return {std::move(path), std::move(command), &properties};
}

std::vector<Entry> read_list(StrictObject& file, const char* name, std::size_t most) {
  std::vector<Entry> entries;
  const json& list = file.list(name, most);
  entries.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    entries.push_back(read_entry(list[i], std::string(name) + "[" + std::to_string(i) + "]"));
  }
  return entries;
}

std::uint64_t read_size(StrictObject& object, std::uint64_t most) {
  const std::uint64_t size = object.decimal("size", most);
  if (size == 0) object.refuse("size", "is 0");
  return size;
}

// `bytes` from the address on have to lie in the allocation.
std::uint64_t read_address(StrictObject& object, const char* key, std::uint64_t bytes, std::uint64_t allocated) {
  const std::uint64_t address = object.decimal(key, kAnyNumber);
  if (address < kProgramBase || address >= kProgramBase + kSegmentBytes) {
    object.refuse(key, "is " + std::to_string(address) + ", outside of the program segment [" +
                           std::to_string(kProgramBase) + ", " + std::to_string(kProgramBase + kSegmentBytes) + ")");
  }
  if (address % kAddressAlignment != 0) {
    object.refuse(key, "is " + std::to_string(address) + ", not a multiple of " + std::to_string(kAddressAlignment));
  }
  const std::uint64_t offset = address - kProgramBase;
  if (offset > allocated || bytes > allocated - offset) {
    object.refuse(key, "is at byte " + std::to_string(offset) + ": " + std::to_string(bytes) +
                           " bytes from there exceed the allocation of " + std::to_string(allocated));
  }
  return address;
}

// Names stand in messages and on terminals.
std::string read_text(StrictObject& object, const char* key) {
  std::string text = object.text(key, kMostNameBytes);
  const auto unprintable = [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; };
  if (std::ranges::any_of(text, unprintable)) object.refuse(key, "has a character that is not printable");
  return text;
}

std::string read_name(StrictObject& object, const char* key) {
  std::string name = read_text(object, key);
  if (name.empty()) object.refuse(key, "is empty");
  return name;
}

bool overlap(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

// ---- JobPreparationPlan ---------------------------------------------------------------------------------------------

InitTransfer read_init(const Entry& entry, const SpyreCode& code) {
  if (entry.command == "Allocate") throw BadMember{entry.path, "is a second Allocate; one stands at the front"};
  if (entry.command != "InitTransfer") {
    throw BadMember{entry.path + ".command", "is unknown here; behind Allocate come InitTransfer only"};
  }
  StrictObject object = entry.object();
  InitTransfer init;
  init.file = read_name(object, "init_bin_file");
  init.size = read_size(object, kSegmentBytes);
  init.dev_ptr = read_address(object, "dev_ptr", init.size, code.allocate_bytes);
  for (std::size_t i = 0; i < code.init.size(); ++i) {
    if (!overlap(init.dev_ptr, init.size, code.init[i].dev_ptr, code.init[i].size)) continue;
    object.refuse("dev_ptr", "overlaps the bytes of " + std::string(kPreparation) + "[" + std::to_string(i + 1) + "]");
  }
  return init;
}

void read_preparation(StrictObject& file, SpyreCode& code) {
  const std::vector<Entry> entries = read_list(file, kPreparation, kMostPreparations);
  if (entries.size() < 2) {
    file.refuse(kPreparation, "has " + std::to_string(entries.size()) + (entries.size() == 1 ? " entry" : " entries") +
                                  "; Allocate and at least one InitTransfer are needed");
  }
  if (entries.front().command != "Allocate") throw BadMember{entries.front().path + ".command", "is not Allocate"};
  StrictObject allocate = entries.front().object();
  code.allocate_bytes = read_size(allocate, kSegmentBytes);
  for (const Entry& entry : std::span(entries).subspan(1)) code.init.push_back(read_init(entry, code));
}

// ---- JobExecPlan ----------------------------------------------------------------------------------------------------

// What the steps so far have made.
struct HostBuffers {
  std::map<std::string, std::uint64_t, std::less<>> bytes;  // by handle
};

ComputeOnHost read_host(const Entry& entry, HostBuffers& buffers) {
  StrictObject object = entry.object();
  ComputeOnHost host;
  host.ohandle = read_name(object, "ohandle");
  if (buffers.bytes.contains(host.ohandle)) object.refuse("ohandle", "names a buffer that exists already");
  host.ihandle = read_text(object, "ihandle");
  if (!host.ihandle.empty() && !buffers.bytes.contains(host.ihandle)) {
    object.refuse("ihandle", "names a buffer that no step before it made");
  }
  host.size = read_size(object, kMostHostBytes);
  const json& shape = object.list("ishape", kMostExtents);
  if (shape.empty()) object.refuse("ishape", "is empty; [\"0\"] says that no address is needed");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    host.ishape.push_back(decimal_number(shape[i], object.path_of("ishape") + "[" + std::to_string(i) + "]", 65'536));
  }
  const json& hcm = object.member("hcm");
  if (!hcm.is_object()) object.refuse("hcm", "is not an object");
  host.hcm = dump(hcm);
  buffers.bytes.emplace(host.ohandle, host.size);
  return host;
}

DataTransfer read_transfer(const Entry& entry, const SpyreCode& code, HostBuffers& buffers) {
  StrictObject object = entry.object();
  DataTransfer transfer;
  const std::string direction = object.text("dirn", kMostNameBytes);
  if (direction != "false" && direction != "true") {
    object.refuse("dirn", "is neither \"false\" (to the device) nor \"true\" (from it)");
  }
  const bool to_device = direction == "false";
  transfer.direction = to_device ? TransferDirection::ToDevice : TransferDirection::FromDevice;
  transfer.host_handle = read_name(object, "host_handle");
  transfer.size = read_size(object, kSegmentBytes);
  transfer.dev_ptr = read_address(object, "dev_ptr", transfer.size, code.allocate_bytes);
  if (!to_device) {
    buffers.bytes[transfer.host_handle] = transfer.size;
    return transfer;
  }
  const auto buffer = buffers.bytes.find(transfer.host_handle);
  if (buffer == buffers.bytes.end()) object.refuse("host_handle", "names a buffer that no step before it made");
  if (transfer.size > buffer->second) {
    object.refuse("size", "is " + std::to_string(transfer.size) + ", and the buffer has " +
                              std::to_string(buffer->second) + " bytes");
  }
  for (std::size_t i = 0; i < code.init.size(); ++i) {
    if (!overlap(transfer.dev_ptr, transfer.size, code.init[i].dev_ptr, code.init[i].size)) continue;
    object.refuse("dev_ptr", "overlaps the bytes of " + std::string(kPreparation) + "[" + std::to_string(i + 1) + "]");
  }
  return transfer;
}

ComputeOnDevice read_compute(const Entry& entry, const SpyreCode& code) {
  StrictObject object = entry.object();
  ComputeOnDevice compute;
  compute.job_bin_ptr = read_address(object, "job_bin_ptr", kAddressAlignment, code.allocate_bytes);
  if (object.has("name")) compute.name = read_text(object, "name");
  const bool initialised = std::ranges::any_of(
      code.init, [&](const InitTransfer& init) { return overlap(compute.job_bin_ptr, 1, init.dev_ptr, init.size); });
  if (!initialised) object.refuse("job_bin_ptr", "points to no byte that an InitTransfer brings");
  return compute;
}

// A ComputeOnHost in front orders what follows.
void check_order(const std::vector<Entry>& entries, const SpyreCode& code) {
  const auto* host = std::get_if<ComputeOnHost>(&code.exec.front());
  if (host == nullptr) return;
  const auto* transfer = code.exec.size() > 1 ? std::get_if<DataTransfer>(&code.exec[1]) : nullptr;
  if (transfer == nullptr || transfer->direction != TransferDirection::ToDevice) {
    throw BadMember{entries.front().path, "is a ComputeOnHost, and no DataTransfer to the device stands behind it"};
  }
  if (transfer->host_handle != host->ohandle) {
    throw BadMember{entries[1].path + ".properties.host_handle",
                    "is not the buffer that " + entries.front().path + " makes"};
  }
  for (std::size_t i = 2; i < code.exec.size(); ++i) {
    if (std::holds_alternative<ComputeOnDevice>(code.exec[i])) continue;
    throw BadMember{entries[i].path, "is a " + entries[i].command + "; behind " + kExecution +
                                         "[0], a ComputeOnHost, and its DataTransfer come ComputeOnDevice only"};
  }
}

void read_execution(StrictObject& file, SpyreCode& code) {
  const std::vector<Entry> entries = read_list(file, kExecution, kMostSteps);
  HostBuffers buffers;
  bool computes = false;
  for (const Entry& entry : entries) {
    if (entry.command == "ComputeOnHost") {
      code.exec.emplace_back(read_host(entry, buffers));
    } else if (entry.command == "DataTransfer") {
      code.exec.emplace_back(read_transfer(entry, code, buffers));
    } else if (entry.command == "ComputeOnDevice") {
      code.exec.emplace_back(read_compute(entry, code));
      computes = true;
    } else {
      throw BadMember{entry.path + ".command",
                      "is unknown; an entry is a ComputeOnHost, a DataTransfer or a ComputeOnDevice"};
    }
  }
  if (!entries.empty()) check_order(entries, code);
  if (!computes) throw BadMember{kExecution, "has no ComputeOnDevice"};
}

// ---- writing --------------------------------------------------------------------------------------------------------

ordered_json entry_of(const char* command, ordered_json properties) {
  return {{"command", command}, {"properties", std::move(properties)}};
}

struct StepWriter {
  ordered_json operator()(const ComputeOnHost& host) const {
    ordered_json shape = ordered_json::array();
    for (const std::uint64_t extent : host.ishape) shape.push_back(std::to_string(extent));
    return entry_of("ComputeOnHost", {{"ihandle", host.ihandle},
                                      {"ishape", std::move(shape)},
                                      {"ohandle", host.ohandle},
                                      {"size", std::to_string(host.size)},
                                      {"hcm", ordered_json::parse(host.hcm)}});
  }
  ordered_json operator()(const DataTransfer& transfer) const {
    return entry_of("DataTransfer", {{"dirn", transfer.direction == TransferDirection::ToDevice ? "false" : "true"},
                                     {"host_handle", transfer.host_handle},
                                     {"dev_ptr", std::to_string(transfer.dev_ptr)},
                                     {"size", std::to_string(transfer.size)}});
  }
  ordered_json operator()(const ComputeOnDevice& compute) const {
    ordered_json properties = {{"job_bin_ptr", std::to_string(compute.job_bin_ptr)}};
    if (!compute.name.empty()) properties["name"] = compute.name;
    return entry_of("ComputeOnDevice", std::move(properties));
  }
};

}  // namespace

std::uint64_t address_count(const ComputeOnHost& host) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : host.ishape) {
    if (__builtin_mul_overflow(count, extent, &count)) return kAnyNumber;
  }
  return count;
}

std::string step_path(std::size_t index) { return std::string(kExecution) + "[" + std::to_string(index) + "]"; }

SpyreCode parse(std::string_view text) {
  try {
    const json file = parse_strict(text, kMostFileBytes, "");
    StrictObject object(file, "");
    SpyreCode code;
    read_preparation(object, code);
    read_execution(object, code);
    return code;
  } catch (const BadMember& bad) {
    refuse_member(bad.path, bad.what);
  }
}

std::string to_json(const SpyreCode& code) {
  ordered_json preparation = ordered_json::array();
  preparation.push_back(entry_of("Allocate", {{"size", std::to_string(code.allocate_bytes)}}));
  for (const InitTransfer& init : code.init) {
    preparation.push_back(entry_of("InitTransfer", {{"init_bin_file", init.file},
                                                    {"dev_ptr", std::to_string(init.dev_ptr)},
                                                    {"size", std::to_string(init.size)}}));
  }
  ordered_json execution = ordered_json::array();
  for (const ExecStep& step : code.exec) execution.push_back(std::visit(StepWriter{}, step));
  const ordered_json file = {{kPreparation, std::move(preparation)}, {kExecution, std::move(execution)}};
  return file.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace svp::spyrecode
