// The token stands behind the # of the address, which no browser sends. It is removed there, and posted for a cookie.
const said = document.getElementById("said"), box = document.getElementById("token"), button = document.getElementById("enter");
const given = location.hash.startsWith("#token=") ? location.hash.slice("#token=".length) : "";

async function enter(token) {
  button.disabled = true;
  try {
    const reply = await fetch("api/enter", { method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) });
    if (reply.ok) { location.replace(location.pathname); return; }
    said.textContent = "This is not the token of this page. Open the address that swarm-node printed last.";
  } catch { said.textContent = "The dashboard has stopped: start it again."; }
  button.disabled = false;
  ask();
}

function ask() {
  document.getElementById("main").hidden = false;
  box.value = "";
  box.focus();
}

if (given) { history.replaceState(null, "", location.pathname); enter(given); } else ask();
button.addEventListener("click", () => enter(box.value.trim()));
box.addEventListener("keydown", (event) => { if (event.key === "Enter") enter(box.value.trim()); });
