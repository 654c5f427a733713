// Arithmetic of LaneValues in loops that become vector code.
#pragma once

#include "ir/oracle/oracle_lanes.h"

namespace tilewright::oracle {

// Products and sums of floats, with the errors of oracle::apply(); `u` is the unit roundoff.
void multiply_lanes(const LaneValues& b, double u, int count, LaneValues& a);
// `sign` is 1 or -1.
void add_lanes(const LaneValues& b, double sign, double u, int count, LaneValues& a);

bool any_apart(const LaneValues& values, int count);
// The most that a sum or product of `a` and `b` amounts to with its parts apart. `takes`: it has parts of
// its own; else a product has those of its factors.
void most_apart(const LaneValues& a, const LaneValues& b, bool takes, bool product, int count,
                double* most);
// Keeps what lies beyond the result.
void keep_apart(const double* most, int count, LaneValues& a);
// oracle::apart_of_code() with this offset, of every lane.
void set_apart_of_codes(double offset, int count, LaneValues& a);

// Adds a term to a sum of floats, whose magnitude and whose parts are added up besides.
void add_term(const LaneValues& term, int count, LaneValues& sum, double* magnitude, double* apart);

}  // namespace tilewright::oracle
