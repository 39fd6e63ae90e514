// SPDX-License-Identifier: Apache-2.0
#include "tests/device/card/card_support.hpp"

#include <cstring>
#include <fstream>
#include <iterator>

namespace svp::test {

CardOptions small_card(std::string boot_arguments) {
  CardOptions options;
  options.cores = 2;
  options.boot_arguments = std::move(boot_arguments);
  return options;
}

void expect_healthy(Card& card, Device& device) {
  EXPECT_TRUE(card.machine().alive());
  EXPECT_EQ(card.machine().console().find("PANIC"), std::string::npos) << card.machine().console();
  EXPECT_EQ(device.health(), Health::Alive);
  EXPECT_FALSE(device.failure());
  EXPECT_TRUE(device.card_statistics());
}

std::vector<std::byte> kernel_image(const std::filesystem::path& firmware, std::string_view name) {
  const auto path = firmware.parent_path() / "kernels" / (std::string(name) + ".img");
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty()) throw std::runtime_error("no kernel image " + path.string());
  std::vector<std::byte> image(bytes.size());
  std::memcpy(image.data(), bytes.data(), bytes.size());
  return image;
}

}  // namespace svp::test
