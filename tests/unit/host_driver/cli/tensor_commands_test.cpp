// SPDX-License-Identifier: Apache-2.0
// spyre layout and spyre convert: what they print. They need no card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/Error.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/host_driver/cli/command_output.hpp"

namespace cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string output_of(const std::vector<const char*>& words) {
  const test::Printed printed = test::run({words.begin(), words.end()});
  EXPECT_EQ(printed.code, 0);
  return printed.text;
}

std::string refusal_of(const std::vector<const char*>& words) {
  return svp::describe(test::refusal_of({words.begin(), words.end()}));
}

// ---- layout ---------------------------------------------------------------------------------------------------------

struct Example {
  std::vector<const char*> words;
  json device_size;
  json stride_map;
};

TEST(LayoutCommand, PrintsThePublishedExamples) {
  const Example examples[] = {
      {{"--size", ""}, {1, 64}, {-1, -1}},
      {{"--size", "128"}, {2, 64}, {64, 1}},
      {{"--size", "512,256"}, {4, 512, 64}, {64, 256, 1}},
      {{"--size", "512,8,256"}, {8, 4, 512, 64}, {256, 64, 2048, 1}},
      {{"--size", "512,256", "--dim-order", "1,0"}, {8, 256, 64}, {16384, 1, 256}},
      {{"--size", "512,256", "--dim-order", "0,1,-1"}, {256, 1, 512, 64}, {1, -1, 256, -1}},
      {{"--size", "5,100,150"}, {100, 3, 5, 64}, {150, 64, 15000, 1}},
  };
  for (const Example& example : examples) {
    std::vector<const char*> words{"layout", "--json"};
    words.insert(words.end(), example.words.begin(), example.words.end());
    const json printed = json::parse(output_of(words));
    EXPECT_EQ(printed.at("device_size"), example.device_size);
    EXPECT_EQ(printed.at("stride_map"), example.stride_map);
    EXPECT_FALSE(printed.contains("infos"));
  }
}

TEST(LayoutCommand, CountsBytesOfWholeSticks) {
  EXPECT_EQ(json::parse(output_of({"layout", "--size", "512,240", "--json"})).at("bytes"), 4 * 512 * 128);
  EXPECT_EQ(json::parse(output_of({"layout", "--size", "3", "--dtype", "int64", "--json"})).at("bytes"), 128);
}

TEST(LayoutCommand, DmaPrintsTheLoopsOfATransferInnermostFirst) {
  const json printed = json::parse(output_of({"layout", "--size", "512,240", "--dma", "--json"}));
  EXPECT_EQ(printed.at("infos"), json::parse("[[[64,512,3],[1,240,64],[1,64,32768],0,0],"
                                             "[[48,512,1],[1,240,64],[1,64,32768],192,98304]]"));
}

TEST(LayoutCommand, TakesTheExtentsAndStepsOfTheCard) {
  const json printed = json::parse(output_of({"layout", "--size", "128,128", "--device-size", "2,2,64,64",
                                              "--stride-map", "8192,64,128,1", "--dma", "--json"}));
  EXPECT_EQ(printed.at("device_size"), (json{2, 2, 64, 64}));
  EXPECT_EQ(printed.at("infos"), json::parse("[[[64,64,2,2],[1,128,64,8192],[1,64,4096,8192],0,0]]"));
}

TEST(LayoutCommand, ThePictureShowsElementsAndPadding) {
  const std::string text = output_of({"--color", "never", "layout", "--size", "2,80"});
  EXPECT_THAT(text, HasSubstr("[0, 0] to [0, 63]"));
  EXPECT_THAT(text, HasSubstr("[1, 64] to [1, 79]"));
  EXPECT_THAT(text, Not(HasSubstr(" ...\n"))) << "rows were left out; dots alone are padding where there is no UTF-8";
  EXPECT_THAT(output_of({"layout", "--size", "100000000,64"}), HasSubstr("[99999999, 0] to [99999999, 63]"));
}

TEST(LayoutCommand, ThePictureFollowsTheMap) {
  // 100 elements of the host to a step of the first dimension, over rows of 96.
  const std::string text = output_of(
      {"--color", "never", "layout", "--size", "4,96", "--device-size", "4,2,64", "--stride-map", "100,64,1"});
  EXPECT_THAT(text, HasSubstr("[0, 64] to [1, 3]"));
  EXPECT_THAT(text, HasSubstr("[1, 4] to [1, 67]"));
  EXPECT_THAT(output_of({"layout", "--size", "3,64", "--stride", "0,1"}), HasSubstr("[2, 0] to [2, 63]"));
}

TEST(LayoutCommand, NamesTheOptionThatIsWrong) {
  EXPECT_THAT(refusal_of({"layout", "--size", "5,x"}), HasSubstr("'x' is no whole number"));
  EXPECT_THAT(refusal_of({"layout", "--size", "5,"}), HasSubstr("last comma"));
  EXPECT_THAT(refusal_of({"layout", "--size", "99999999999999999999"}), HasSubstr("no whole number of 64 bits"));
  EXPECT_THAT(refusal_of({"layout", "--size", "4294967296,4294967296"}), HasSubstr("2^63"));
  EXPECT_THAT(refusal_of({"layout", "--size", "5,7", "--stride", "1"}), HasSubstr("differ in length"));
  EXPECT_THAT(refusal_of({"layout", "--size", "5,7", "--dim-order", "0"}), HasSubstr("dim_order"));
  EXPECT_THAT(refusal_of({"layout", "--size", "5", "--dtype", "float64"}), HasSubstr("no format on the card"));
  EXPECT_THAT(refusal_of({"layout", "--size", "5", "--dtype", "half"}), HasSubstr("there is no type 'half'"));
  EXPECT_THAT(refusal_of({"layout", "--size", "65", "--device-size", "1,64", "--stride-map", "64,1"}),
              HasSubstr("not every element"));
  EXPECT_THAT(refusal_of({"layout", "--size", "64", "--device-size", "1,32", "--stride-map", "64,1"}), HasSubstr("64"));
}

TEST(LayoutCommand, ExtentsOfTheCardWantStepsAndNoOrder) {
  EXPECT_THROW(output_of({"layout", "--size", "64", "--device-size", "1,64"}), CLI::ParseError);
  EXPECT_THROW(output_of({"layout"}), CLI::ParseError);
  EXPECT_THROW(
      output_of({"layout", "--size", "64", "--device-size", "1,64", "--stride-map", "64,1", "--dim-order", "0"}),
      CLI::ParseError);
}

// ---- convert --------------------------------------------------------------------------------------------------------

TEST(ConvertCommand, PrintsACodePerLine) {
  EXPECT_EQ(output_of({"convert", "--to", "dl16", "--", "1.0", "-0x1p-14", "nan"}), "3E00\nA200\n7FFE\n");
  EXPECT_EQ(output_of({"convert", "--to", "fp8_e4m3", "--", "448", "465", "1000", "-inf", "nan"}),
            "7E\n7E\n7E\nFE\n7F\n");
  EXPECT_EQ(output_of({"convert", "--to", "fp32", "--", "1"}), "3F800000\n");
}

TEST(ConvertCommand, PrintsANumberPerLine) {
  EXPECT_EQ(output_of({"convert", "--from", "dl16", "--", "3E00", "0xBC00", "7fff", "7ffe"}), "1\n-0.5\ninf\nnan\n");
}

TEST(ConvertCommand, NamesWhatIsWrong) {
  EXPECT_THAT(refusal_of({"convert", "--to", "dl17", "--", "1"}), HasSubstr("no format 'dl17'"));
  EXPECT_THAT(refusal_of({"convert", "--to", "dl16", "--", "1.0x"}), HasSubstr("'1.0x' is no number"));
  EXPECT_THAT(refusal_of({"convert", "--from", "dl16", "--", "13E00"}), HasSubstr("'13E00' is no code"));
  EXPECT_THROW(output_of({"convert", "--", "1"}), CLI::ParseError);
  EXPECT_THROW(output_of({"convert", "--to", "dl16", "--from", "dl16", "--", "1"}), CLI::ParseError);
}

}  // namespace
}  // namespace cli
