// SPDX-License-Identifier: Apache-2.0
// Which devices a program sees: the environment and the running cards in, a list of devices out. Pure: device_list.hpp
// reads the two and keeps the answer. Rules of torch-spyre's device enumeration; where it leaves room, ours stand here:
//
//   FLEX_DEVICE     PF: every running card is one device, its physical function. VF: every virtual function of every
//                   running card is one, cards by name, then functions by number, so that several ranks share a card.
//                   MOCK: cards of the process's own, embedded when they are opened. Not set: counts as PF here;
//                   svp::Context then boots a card of its own.
//   SPYRE_DEVICES   comma list of visible indices into the devices found. The order given is the order seen (as with
//                   CUDA_VISIBLE_DEVICES); duplicates and indices out of range are dropped; blanks around an index are
//                   allowed. Set and empty: nothing is visible. Says nothing about MOCK devices.
//   AIU_WORLD_SIZE  caps what is visible: SPYRE_DEVICES chooses first, so that a rank may be given device 5 in a world of
//                   one. It never makes the count larger than what was found (docs/cards.md). MOCK: how many there are,
//                   at least 1; not set: 1.
//   LOCAL_RANK      index of the default device among the visible ones. Not set: 0.
//
// A malformed value is an error that names variable, token and form, also where the value would not matter.
// FLEX_DEVICE, AIU_WORLD_SIZE and LOCAL_RANK set to nothing count as not set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "shared/admin.hpp"

namespace svp {

inline constexpr const char* kFlexDeviceVariable = "FLEX_DEVICE";
inline constexpr const char* kVisibleDevicesVariable = "SPYRE_DEVICES";
inline constexpr const char* kWorldSizeVariable = "AIU_WORLD_SIZE";
inline constexpr const char* kLocalRankVariable = "LOCAL_RANK";

// More MOCK devices than this is taken for a mistake.
inline constexpr std::size_t kMaxMockDevices = 65'536;

// The variables as they are; empty optional: not set.
struct EnumerationVariables {
  std::optional<std::string> flex_device{};
  std::optional<std::string> visible_devices{};
  std::optional<std::string> world_size{};
  std::optional<std::string> local_rank{};

  // Reads the process's environment; must not run beside setenv().
  static EnumerationVariables from_environment();
};

struct RunningCard {
  std::string name;
  unsigned virtual_functions = 0;
};

enum class DeviceMode : std::uint8_t { Physical, Virtual, Mock };
std::string_view name(DeviceMode mode);  // as FLEX_DEVICE spells it

struct EnumeratedDevice {
  std::string card;  // name of a running card; MOCK: "mock0", …
  wire::Target function = wire::kTargetPhysical;
  friend bool operator==(const EnumeratedDevice&, const EnumeratedDevice&) = default;
};

struct Enumeration {
  DeviceMode mode = DeviceMode::Physical;
  bool mode_given = false;                  // FLEX_DEVICE is set
  std::size_t found = 0;                    // before anything was hidden or capped
  std::vector<EnumeratedDevice> devices{};  // the visible ones, in the order of their indices
  std::size_t default_index = 0;            // of LOCAL_RANK; may be out of range: select() says so
};

// `cards` in any order. No card is no error: an empty list. Errors: a malformed variable.
Expected<Enumeration> enumerate(const EnumerationVariables& variables, std::span<const RunningCard> cards);

// The device with this index; empty: the default one. Error: out of range, naming index and count.
Expected<EnumeratedDevice> select(const Enumeration& enumeration, std::optional<std::size_t> index = std::nullopt);

}  // namespace svp
