// SPDX-License-Identifier: Apache-2.0
// The words of a bundle.mlir. Blanks, line ends and // comments separate them and mean nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host_driver/compiler/source_place.hpp"

namespace svp::compiler {

struct Token {
  enum class Kind : std::uint8_t {
    End,
    Word,    // letters, digits, '_' and '.': arith.constant, index, sdsc_filename
    Value,   // %name
    Map,     // #name
    Symbol,  // @name
    Type,    // !name
    Number,  // decimal digits, perhaps with a sign
    Text,    // "…", without its quotes
    Mark,    // one of ( ) { } [ ] < > , = : + *, or ->
  };
  Kind kind = Kind::End;
  std::string_view text;  // with the leading % # @ !
  std::int64_t number = 0;
  unsigned line = 0;
};

// "'arith.addi'", "the end of the file": for messages; bounded, and nothing that a terminal would act on.
std::string shown(const Token& token);

class Tokens {
 public:
  // `text` exists as long as this does.
  Tokens(std::string_view text, std::string file);

  const Token& next() const { return next_; }
  Token take();
  // The next one, when it is this mark or word.
  bool take_if(std::string_view text);
  // Refuse with what was expected instead of what stands there.
  void expect(std::string_view text);
  Token expect(Token::Kind kind, const char* what);
  [[noreturn]] void refuse_next(const std::string& expected) const;

  SourcePlace place(unsigned line) const { return {.file = file_, .line = line, .path = {}}; }
  SourcePlace here() const { return place(next_.line); }

 private:
  void skip_blanks();
  Token read();
  Token read_number(std::size_t begin);
  Token read_text();
  Token token(Token::Kind kind, std::size_t begin) const;
  char at(std::size_t position) const { return position < text_.size() ? text_[position] : '\0'; }

  std::string_view text_;
  std::string file_;
  std::size_t position_ = 0;
  unsigned line_ = 1;
  Token next_;
};

}  // namespace svp::compiler
