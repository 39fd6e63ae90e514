// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/enumeration.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <utility>

namespace svp {

namespace {

// What a person needs to recognise a token; the rest of a long one would hide the message.
constexpr std::size_t kShownToken = 40;

ErrorInfo malformed(const char* variable, std::string_view token, std::string_view form) {
  return {.layer = Layer::Driver,
          .source = variable,
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "set " + std::string(variable) + " to " + std::string(form) + ", or unset it",
          .message = "environment variable " + std::string(variable) + ": '" +
                     std::string(token.substr(0, kShownToken)) + (token.size() > kShownToken ? "..." : "") +
                     "' is not " + std::string(form)};
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Digits only. A number that is too large to hold is a large number, not a malformed one.
std::optional<std::size_t> parse_number(std::string_view digits) {
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::size_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return parsed.ec == std::errc::result_out_of_range ? std::numeric_limits<std::size_t>::max() : value;
}

bool is_set(const std::optional<std::string>& variable) { return variable && !variable->empty(); }

Expected<DeviceMode> parse_mode(const std::optional<std::string>& variable) {
  if (!is_set(variable)) return DeviceMode::Physical;
  for (const DeviceMode mode : {DeviceMode::Physical, DeviceMode::Virtual, DeviceMode::Mock}) {
    if (*variable == name(mode)) return mode;
  }
  return std::unexpected(malformed(kFlexDeviceVariable, *variable, "PF, VF or MOCK"));
}

Expected<std::optional<std::size_t>> parse_world_size(const std::optional<std::string>& variable, DeviceMode mode) {
  if (!is_set(variable)) return std::nullopt;
  const auto size = parse_number(*variable);
  if (!size || (mode == DeviceMode::Mock && *size < 1)) {
    return std::unexpected(malformed(kWorldSizeVariable, *variable, "a whole number from 1"));
  }
  if (mode == DeviceMode::Mock && *size > kMaxMockDevices) {
    return std::unexpected(malformed(kWorldSizeVariable, *variable,
                                     "a whole number from 1 to " + std::to_string(kMaxMockDevices) + " (MOCK)"));
  }
  return size;
}

Expected<std::size_t> parse_local_rank(const std::optional<std::string>& variable) {
  if (!is_set(variable)) return 0;
  if (const auto rank = parse_number(*variable)) return *rank;
  return std::unexpected(malformed(kLocalRankVariable, *variable, "a whole number from 0"));
}

Expected<std::vector<std::size_t>> parse_indices(std::string_view list) {
  std::vector<std::size_t> indices;
  if (without_blanks(list).empty()) return indices;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view token = without_blanks(list.substr(begin, end - begin));
    const auto index = parse_number(token);
    if (!index) {
      return std::unexpected(malformed(kVisibleDevicesVariable, token, "a comma list of device indices like 0,2,3"));
    }
    indices.push_back(*index);
    begin = end + 1;
  }
  return indices;
}

std::vector<EnumeratedDevice> visible(const std::vector<EnumeratedDevice>& found,
                                      const std::vector<std::size_t>& indices) {
  std::vector<EnumeratedDevice> devices;
  std::vector<bool> taken(found.size());
  for (const std::size_t index : indices) {
    if (index >= found.size() || taken[index]) continue;
    taken[index] = true;
    devices.push_back(found[index]);
  }
  return devices;
}

std::vector<EnumeratedDevice> mock_devices(std::size_t count) {
  std::vector<EnumeratedDevice> devices(count);
  for (std::size_t i = 0; i < count; ++i) devices[i].card = "mock" + std::to_string(i);
  return devices;
}

std::vector<EnumeratedDevice> functions_of(std::span<const RunningCard> cards, DeviceMode mode) {
  std::vector<RunningCard> sorted(cards.begin(), cards.end());
  std::ranges::sort(sorted, {}, &RunningCard::name);
  std::vector<EnumeratedDevice> devices;
  for (const RunningCard& card : sorted) {
    if (mode == DeviceMode::Physical) {
      devices.push_back({card.name, wire::kTargetPhysical});
      continue;
    }
    for (unsigned number = 1; number <= card.virtual_functions; ++number) {
      devices.push_back({card.name, wire::target_of_virtual(number)});
    }
  }
  return devices;
}

}  // namespace

std::string_view name(DeviceMode mode) {
  switch (mode) {
    case DeviceMode::Physical: return "PF";
    case DeviceMode::Virtual: return "VF";
    case DeviceMode::Mock: return "MOCK";
  }
  return "unknown mode";
}

EnumerationVariables EnumerationVariables::from_environment() {
  const auto read = [](const char* variable) -> std::optional<std::string> {
    const char* value = std::getenv(variable);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  return {.flex_device = read(kFlexDeviceVariable),
          .visible_devices = read(kVisibleDevicesVariable),
          .world_size = read(kWorldSizeVariable),
          .local_rank = read(kLocalRankVariable)};
}

Expected<Enumeration> enumerate(const EnumerationVariables& variables, std::span<const RunningCard> cards) {
  const auto mode = parse_mode(variables.flex_device);
  if (!mode) return std::unexpected(mode.error());
  const auto world = parse_world_size(variables.world_size, *mode);
  if (!world) return std::unexpected(world.error());
  const auto rank = parse_local_rank(variables.local_rank);
  if (!rank) return std::unexpected(rank.error());
  const auto indices = parse_indices(variables.visible_devices.value_or(""));
  if (!indices) return std::unexpected(indices.error());

  Enumeration result{.mode = *mode, .mode_given = is_set(variables.flex_device), .default_index = *rank};
  if (*mode == DeviceMode::Mock) {
    result.devices = mock_devices(world->value_or(1));
    result.found = result.devices.size();
    return result;
  }
  result.devices = functions_of(cards, *mode);
  result.found = result.devices.size();
  if (variables.visible_devices) result.devices = visible(result.devices, *indices);
  if (*world && **world < result.devices.size()) result.devices.resize(**world);
  return result;
}

Expected<EnumeratedDevice> select(const Enumeration& enumeration, std::optional<std::size_t> index) {
  const std::size_t wanted = index.value_or(enumeration.default_index);
  const std::size_t count = enumeration.devices.size();
  if (wanted < count) return enumeration.devices[wanted];
  std::string next_step;
  if (enumeration.found == 0) {
    next_step = enumeration.mode == DeviceMode::Virtual
                    ? "start a card with virtual functions: spyre boot --name card0 --vfs 4"
                    : "start a card: spyre boot --name card0";
  } else if (count < enumeration.found) {
    next_step = std::to_string(enumeration.found) + " devices were found: change " + kVisibleDevicesVariable + " or " +
                kWorldSizeVariable + ", which hide some, or ask for a smaller index";
  } else {
    next_step = index ? "ask for a smaller index" : "set " + std::string(kLocalRankVariable) + " to a smaller index";
  }
  return std::unexpected(ErrorInfo{
      .layer = Layer::Driver,
      .source = index ? "device index" : kLocalRankVariable,
      .outcome = wire::Outcome::Rejected,
      .recoverable = true,
      .next_step = std::move(next_step),
      .message = "device index " + std::to_string(wanted) + " is out of range: " + std::to_string(count) + " device" +
                 (count == 1 ? "" : "s") + " visible (" + std::string(name(enumeration.mode)) + ")"});
}

}  // namespace svp
