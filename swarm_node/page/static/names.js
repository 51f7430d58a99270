// Two words for a peer, made from its id. They are easy to remember, but prove nothing: other ids give the same words.
import { make, short } from "./tools.js";

const HOW = "amber,bold,brave,bright,brisk,calm,clear,clever,cosy,crisp,daring,deft,eager,early,fair,fleet,fond,frank,fresh,gentle,giddy,glad,golden,grand,happy,hardy,honest,humble,ivory,jolly,keen,kind,lively,loyal,lucky,mellow,merry,mild,misty,modest,neat,nimble,noble,patient,plain,polite,proud,quick,quiet,rapid,ready,rosy,sandy,silver,smart,snowy,steady,sturdy,sunny,swift,tidy,warm,wise,witty".split(",");
const WHO = "badger,beaver,bison,camel,cobra,condor,crane,cricket,dingo,dolphin,eagle,falcon,ferret,finch,fox,gecko,gibbon,goose,hamster,hare,hawk,heron,hippo,ibis,iguana,jackal,jaguar,kiwi,koala,lemur,linnet,lizard,llama,lobster,lynx,magpie,marten,mole,moose,newt,ocelot,orca,osprey,otter,owl,panda,parrot,pelican,puffin,quail,rabbit,raven,robin,salmon,seal,shrew,stork,swan,tapir,tiger,toucan,turtle,walrus,yak".split(",");

export function friendly(peer) {
  let hash = 0x811c9dc5;
  for (const char of String(peer)) hash = Math.imul(hash ^ char.codePointAt(0), 0x01000193) >>> 0;
  return `${HOW[(hash >>> 8) % HOW.length]} ${WHO[(hash >>> 20) % WHO.length]}`;
}

export function named(peer) {
  return make("span", { class: "peer", title: `${peer}. The words come from the id and prove nothing.` }, friendly(peer), " ", make("code", {}, short(String(peer))));
}
