// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/bundle_tokens.hpp"

#include <charconv>
#include <system_error>
#include <utility>

namespace svp::compiler {

namespace {

constexpr std::size_t kShownBytes = 40;
constexpr std::string_view kMarks = "(){}[]<>,=:+*";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.'; }

Token::Kind kind_of_name(char prefix) {
  switch (prefix) {
    case '%': return Token::Kind::Value;
    case '#': return Token::Kind::Map;
    case '@': return Token::Kind::Symbol;
    default: return Token::Kind::Type;
  }
}

}  // namespace

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::End) return "the end of the file";
  std::string safe = "'";
  for (const char c : token.text.substr(0, kShownBytes)) safe.push_back(c >= ' ' && c <= '~' ? c : '?');
  return safe + (token.text.size() > kShownBytes ? "...'" : "'");
}

Tokens::Tokens(std::string_view text, std::string file) : text_(text), file_(std::move(file)) { next_ = read(); }

Token Tokens::take() { return std::exchange(next_, next_.kind == Token::Kind::End ? next_ : read()); }

bool Tokens::take_if(std::string_view text) {
  const bool same = (next_.kind == Token::Kind::Mark || next_.kind == Token::Kind::Word) && next_.text == text;
  if (same) take();
  return same;
}

void Tokens::expect(std::string_view text) {
  if (!take_if(text)) refuse_next("'" + std::string(text) + "'");
}

Token Tokens::expect(Token::Kind kind, const char* what) {
  if (next_.kind != kind) refuse_next(what);
  return take();
}

void Tokens::refuse_next(const std::string& expected) const {
  refuse(here(), expected + " is expected, and " + shown(next_) + " stands there");
}

void Tokens::skip_blanks() {
  for (;; ++position_) {  // bounded: by the text
    const char c = at(position_);
    if (c == '/' && at(position_ + 1) == '/') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    }
    if (at(position_) == '\n') ++line_;
    const char blank = at(position_);
    if (position_ >= text_.size() || (blank != ' ' && blank != '\t' && blank != '\r' && blank != '\n')) return;
  }
}

Token Tokens::token(Token::Kind kind, std::size_t begin) const {
  return {.kind = kind, .text = text_.substr(begin, position_ - begin), .number = 0, .line = line_};
}

Token Tokens::read() {
  skip_blanks();
  const std::size_t begin = position_;
  if (begin >= text_.size()) return token(Token::Kind::End, begin);
  const char first = text_[begin];
  if (is_digit(first) || (first == '-' && is_digit(at(begin + 1)))) return read_number(begin);
  if (first == '"') return read_text();
  ++position_;
  if (first == '-' && at(position_) == '>') {
    ++position_;
    return token(Token::Kind::Mark, begin);
  }
  if (kMarks.contains(first)) return token(Token::Kind::Mark, begin);
  const bool named = first == '%' || first == '#' || first == '@' || first == '!';
  if (!named && !is_word(first)) {
    const Token bad = token(Token::Kind::Mark, begin);
    refuse(place(line_), "a character that no statement of a bundle has: " + shown(bad));
  }
  while (is_word(at(position_))) ++position_;
  if (named && position_ == begin + 1) refuse(place(line_), "'" + std::string(1, first) + "' without a name");
  return token(named ? kind_of_name(first) : Token::Kind::Word, begin);
}

Token Tokens::read_number(std::size_t begin) {
  ++position_;
  while (is_word(at(position_))) ++position_;
  Token result = token(Token::Kind::Number, begin);
  const char* const from = text_.data() + begin;
  const char* const end = from + result.text.size();
  const auto [stopped, error] = std::from_chars(from, end, result.number);
  if (error == std::errc::result_out_of_range) refuse(place(line_), shown(result) + " does not fit 64 bits");
  if (error != std::errc{} || stopped != end) refuse(place(line_), shown(result) + " is no decimal number");
  return result;
}

Token Tokens::read_text() {
  const std::size_t begin = ++position_;
  while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\n') ++position_;
  const Token result = token(Token::Kind::Text, begin);
  if (at(position_) != '"') refuse(place(line_), "a text without its closing quote: " + shown(result));
  ++position_;
  return result;
}

}  // namespace svp::compiler
