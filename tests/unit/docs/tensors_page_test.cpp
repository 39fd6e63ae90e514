// SPDX-License-Identifier: Apache-2.0
// docs/tensors.md lists which conversions a copy between host and card makes, as the code has them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host_driver/tensor/element_format.hpp"
#include "tests/unit/docs/page_rows.hpp"

namespace {

constexpr svp::DeviceType kFormats[] = {svp::DeviceType::Dl16,    svp::DeviceType::Fp32,   svp::DeviceType::Int32,
                                        svp::DeviceType::Int16,   svp::DeviceType::Int8,   svp::DeviceType::Uint32,
                                        svp::DeviceType::Fp8E4m3, svp::DeviceType::Fp8E5m2};

// The types of the host that convert to or from a format of the card.
std::string types_beside(svp::DeviceType device, bool to_card) {
  std::string text;
  for (unsigned number = 0; number <= static_cast<unsigned>(svp::DataType::Bool); ++number) {
    const auto type = static_cast<svp::DataType>(number);
    const auto host = svp::format_of(type);
    const svp::ElementFormat card = svp::format_of(device);
    if (!host || svp::conversion(to_card ? *host : card, to_card ? card : *host) == nullptr) continue;
    text += (text.empty() ? "" : ", ") + std::string(name(type));
  }
  return text;
}

TEST(TensorsPage, ListsTheConversionsOfCopies) {
  std::vector<std::string> rows;
  for (const svp::DeviceType device : kFormats) {
    rows.push_back("| " + std::string(name(device)) + " | " + types_beside(device, true) + " | " +
                   types_beside(device, false) + " |");
  }
  EXPECT_EQ(docs::rows_on_page(docs::read_page(SPYRE_SOURCE_DIR "/docs/tensors.md"), "Conversions of a copy"), rows);
}

}  // namespace
