// Numbers with units for people. Inside the program a quantity is a double whose name carries its
// unit (`time_us`, `bytes`, `bandwidth_gb_s`); decimal prefixes throughout (1 GB = 1e9 B).
//
//   format_bytes(679.5e6)   -> "679.5 MB"
//   format_time_us(31913)   -> "31.91 ms"
//   format_rate(2.0e14, "FLOP/s") -> "200.0 TFLOP/s"
#pragma once

#include <string>
#include <string_view>

namespace nibble {

inline constexpr double kKilo = 1e3;
inline constexpr double kMega = 1e6;
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;

// Four significant digits without exponent: 0.2177, 54.86, 679.5, 1158, 12346. Digits before the
// point are never rounded away, and whole numbers show none after it: 16, 12345. "n/a" for NaN.
std::string format_number(double value, int significant = 4);
// The same without zeros at the end of a fraction, for shapes: 255.99998 -> "256", 2.500 -> "2.5".
std::string format_compact(double value);

// The functions below share these rules. With a prefix: `significant` digits, zeros kept, the
// prefix chosen after rounding (999.99e6 B is "1.000 GB"). Without: as format_number. From 1,000 on
// the digits before the point are grouped by commas. One space before the unit.
std::string format_bytes(double bytes, int significant = 4);
std::string format_time_us(
    double microseconds);  // ns, us, ms, s, from 2 minutes min, from 2 hours h
// Written out below a million, then M, B, T: 1024 -> "1,024", 743.9e9 -> "743.9 B".
std::string format_count(double count);
std::string format_rate(double per_second, std::string_view unit, int significant = 4);
// A share of a whole to one decimal, for columns of them: 0.0137 -> "1.4 %", 0.00008 -> "<0.1 %".
std::string format_share(double ratio);
std::string format_percent(double ratio);  // three digits: 0.0513 -> "5.13 %"
// A value with its unit:
//   B, kB, MB, GB, TB       prefix chosen anew        679.5e6 "B"   -> "679.5 MB"
//   B/s ... TB/s, FLOP, FLOP/s, GFLOPS, TFLOPS, PFLOPS  likewise   1597 "GB/s" -> "1.597 TB/s"
//   ns, us, ms, s           as format_time_us         31913 "us"    -> "31.91 ms"
//   ratio                   as format_percent         0.0513        -> "5.13 %"
//   %, x                    three digits              21.13 "x"     -> "21.1 x"
//   "", tokens, rows, ...   as format_count           131072 "tokens" -> "131,072 tokens"
//   FLOP/B, tok/s, W, other units with a slash or in capitals: the number, grouped
//                                                     1158.4 "FLOP/B" -> "1,158 FLOP/B"
std::string format_quantity(double value, std::string_view unit);

}  // namespace nibble
