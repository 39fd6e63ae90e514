// SPDX-License-Identifier: Apache-2.0
// VIRTIO 1.4 numbers that the control plane uses: device status (2.1), feature bits (6), queue numbers.
#pragma once

#include <cstdint>
#include <string_view>

namespace wire {

// Our device: not a registered virtio device type; vendor 0 in virtio terms ("experimental" range).
inline constexpr std::uint32_t kDeviceId = 0x5350;
inline constexpr std::uint32_t kVendorId = 0x5350;

enum DeviceStatus : std::uint32_t {
  kStatusReset = 0,
  kStatusAcknowledge = 1,
  kStatusDriver = 2,
  kStatusDriverOk = 4,
  kStatusFeaturesOk = 8,
  kStatusNeedsReset = 64,
  kStatusFailed = 128,
};

constexpr std::uint64_t feature_bit(unsigned bit) { return std::uint64_t{1} << bit; }
inline constexpr std::uint64_t kFeatureControlBlockCrc = feature_bit(0);  // ours: CRC32C on every control block
inline constexpr std::uint64_t kFeatureIndirectDesc = feature_bit(28);
inline constexpr std::uint64_t kFeatureEventIdx = feature_bit(29);
inline constexpr std::uint64_t kFeatureVersion1 = feature_bit(32);
inline constexpr std::uint64_t kFeatureAccessPlatform = feature_bit(33);
inline constexpr std::uint64_t kFeatureRingPacked = feature_bit(34);
inline constexpr std::uint64_t kFeatureRingReset = feature_bit(40);

// Without these the contract does not hold; the device refuses FEATURES_OK when one is missing.
inline constexpr std::uint64_t kMandatoryFeatures =
    kFeatureVersion1 | kFeatureAccessPlatform | kFeatureRingPacked | kFeatureRingReset;
inline constexpr std::uint64_t kOptionalFeatures = kFeatureControlBlockCrc | kFeatureIndirectDesc | kFeatureEventIdx;
inline constexpr std::uint64_t kOfferedFeatures = kMandatoryFeatures | kOptionalFeatures;

enum Queue : std::uint32_t {
  kAdminQueue = 0,
  kControlBlockQueue = 1,
  kEventQueue = 2,
};
inline constexpr std::uint32_t kQueueCount = 3;

constexpr std::string_view queue_name(std::uint32_t queue) {
  constexpr std::string_view kNames[] = {"admin", "control blocks", "device events"};
  return queue < kQueueCount ? kNames[queue] : std::string_view("unknown queue");
}

}  // namespace wire
