// Package timeline decides which snapshot is current, which ones wait for their time, which may
// be pinned, and which are withdrawn (INTERFACE.md, "Pinned paging" and "Activation"). A
// [Timeline] is a value: it has no goroutine, no lock and no clock. Its owner tells it what
// happened and when, and carries out its decisions. Package snapshot is that owner: it polls,
// fetches, stores and warms.
//
// A snapshot is fetched, waits, becomes current, may then be pinned for as long as the current
// snapshot retains it, and is finally dropped. The newest snapshot is the last waiting one or, if
// none waits, the current one.
//
//	event                      condition                                  decision
//	pointer seen               nothing is known yet                       Fetch
//	  (Seen)                   newest sequence, same manifest, current    Confirm: its signature may be new
//	                           newest sequence, same manifest, waits      Ignore
//	                           newest sequence, another manifest          error: refused
//	                           lower sequence of the same store           error: refused
//	                           anything else                              Fetch
//	fetching begins            there is no snapshot yet                   no deadline: it need not wait for objects
//	  (Fetching)               otherwise                                  a deadline, Budget after the first try
//	objects fetched            none is missing                            Accept
//	  (Fetched)                one was damaged or missing in the store    Retry, with a new budget
//	                           before the deadline                        Retry, within the same budget
//	                           after it, the store does not answer        Unreachable: retry, with a new budget
//	                           after it, the store answers                Accept, with objects missing
//	snapshot ready             not later than the newest (a rollback)     drop all waiting ones; due immediately
//	  (Ready)                  its pointer sets no time                   due immediately
//	                           the first snapshot                         due immediately; NotBefore is its time
//	                           otherwise                                  waits until its time by the wall clock,
//	                                                                      at most artifacts.MaxActivateAfter after
//	                                                                      its pointer was first seen
//	time passed                a waiting snapshot is due                  it and all before it become current, in
//	  (Advance)                                                           order; drop what they do not retain
//	pin                        current, waiting, or retained and loaded   that snapshot
//	  (Pin)                    retained by the current one                load it
//	                           not a multiple of artifacts.Step           ErrUneven
//	                           before the current one, or withdrawn       ErrGone
//	                           over 12 min after clock and newest         ErrAhead
//	                           the store never answered                   ErrUnknown
//	                           otherwise                                  ErrLater: it may arrive
//	retained snapshot loaded   still retained, and not loaded yet         keep it
//	  (Loaded)                 otherwise                                  drop it
//	store has no snapshot      there is none here either                  pins of later times may arrive
//	  (Empty)
//	end (End)                                                             drop all waiting ones
//
// A timeline holds the current snapshot, the loaded snapshots that it retains, and the waiting
// snapshots, whose pointers were first seen within the last artifacts.MaxActivateAfter.
//
// A snapshot withdraws the times listed in its manifest. It also withdraws every later time that
// the previously newest snapshot had, retained or withdrew, because a restored manifest does not
// list these.
package timeline
